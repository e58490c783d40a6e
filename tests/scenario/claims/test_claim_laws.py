"""Laws of claims, whatever users, machines, the API and the kill signal do.

Random stories happen to the two functions of a GPU and their agent. Once things have calmed down,
the group is with vfio-pci if it is claimed and with its own drivers if it is not, and every claim
says so. At no time is a device taken from a machine that has it open.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kapilite.server import ApiServer
from laneway.api import PCIDeviceClaim, find_condition
from laneway.controllers.claims.pci import PciClaimController
from laneway.controllers.metrics import MetricFamilies
from laneway.controllers.timing import Timing
from laneway.host.plans.execute import execute
from laneway.host.plans.recover import recover
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import ApiError, KubeError, UnreachableError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.roles.install import install_crds
from laneway.sim.faults import Killed
from laneway.sim.spec import build, parse_spec
from support.api_server import kubeconfig_of
from support.examples import many
from support.plans import BRIEF, hardware_of

SECONDS = 60.0
NODE = "workstation"
FUNCTIONS = ("0000:08:00.0", "0000:08:00.1")
NAMES = ("workstation-000008000", "workstation-000008001")
CLAIMS = served(PCIDeviceClaim)


@dataclasses.dataclass
class Faults:
    """Countdowns of the agent's changes through the API: to one that fails, and to the kill."""

    request: int = 0
    answered: bool = False
    kill: int = 0
    killed: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def count(self, name: str) -> bool:
        left = getattr(self, name)
        if left:
            setattr(self, name, left - 1)
        return bool(left == 1)


class Unreliable(Client):
    """The agent's client."""

    faults: Faults

    async def call(self, method: str, path: str, *args: Any) -> bytes:
        if method == "GET":
            return await super().call(method, path, *args)
        if self.faults.count("request"):
            if not self.faults.answered:
                raise ApiError(500, "InternalError", "a fault")
            await super().call(method, path, *args)
            raise UnreachableError("the answer was lost")
        answer = await super().call(method, path, *args)
        if self.faults.count("kill"):
            self.faults.killed.set()
            await asyncio.Event().wait()
        return answer


def group_of(host: Any) -> int | None:
    """The IOMMU group of both functions."""
    [group] = {one.iommu_group for one in scan(host).functions if str(one.address) in FUNCTIONS}
    return group


class Story:
    """One node, its agent, and what happens to them."""

    def __init__(self, client: Client, flaky: Unreliable, folder: Path) -> None:
        self.client = client
        self.flaky = flaky
        self.faults = flaky.faults
        self.folder = folder
        self.host = build(parse_spec(NODE), NODE)
        self.seen: tuple[str, ...] = ()
        self.before = self.drivers()
        self.group = group_of(self.host)
        self.machine: Any = None
        self.task: asyncio.Task[None] | None = None
        self.families = MetricFamilies()

    def drivers(self) -> tuple[str, ...]:
        """As they are, or were before the agent was killed that is not yet replaced."""
        with contextlib.suppress(Killed):
            found = {str(one.address): one.driver for one in scan(self.host).functions}
            self.seen = tuple(found[one] for one in FUNCTIONS)
        return self.seen

    async def start(self) -> None:
        self.faults.killed.clear()
        self.host.restart()
        hardware = hardware_of(self.host, self.folder)
        agent = Agent(NODE, hardware, self.flaky, self.families, timing=Timing(retry=0.05))
        self.task = asyncio.create_task(agent.run())

    async def stop(self) -> None:
        task, self.task = self.task, None
        if task is not None:
            task.cancel()
            try:
                await task
            except (asyncio.CancelledError, Killed):
                pass
            except BaseExceptionGroup as died:
                if died.split(Killed)[1] is not None:
                    raise

    async def watch(self) -> None:
        """Let the agent work for a moment; another takes its place when it has been killed."""
        for _ in range(50):
            if self.faults.killed.is_set() or self.task is None or self.task.done():
                await self.stop()
                await self.start()
            assert self.machine is None or self.drivers() == ("vfio-pci", "vfio-pci")
            await asyncio.sleep(0)

    async def _claim(self, which: int) -> None:
        with contextlib.suppress(KubeError):
            await self.client.create(
                CLAIMS,
                {
                    "apiVersion": CLAIMS.api_version,
                    "kind": "PCIDeviceClaim",
                    "metadata": {"name": NAMES[which]},
                    "spec": {"address": FUNCTIONS[which], "nodeName": NODE, "userName": "kim"},
                },
            )

    async def _delete(self, which: int) -> None:
        with contextlib.suppress(KubeError):
            await self.client.delete(CLAIMS, NAMES[which])

    async def _hold(self) -> None:
        # The agent may be about to give the group back, which it has looked at already.
        claims = await self.claims()
        if self.machine is None and any(not one.metadata.deletion_timestamp for one in claims):
            await self.settled()
            with contextlib.suppress(OSError):
                self.machine = self.host.hold(f"/dev/vfio/{self.group}")

    async def _let_go(self) -> None:
        if self.machine is not None:
            self.machine.release()
            self.machine = None

    async def _restart(self) -> None:
        await self.stop()

    async def _fail_request(self, number: int, answered: bool) -> None:
        self.faults.request, self.faults.answered = number, answered

    async def _kill(self, number: int) -> None:
        self.faults.kill = number

    async def _kill_at_write(self, number: int, when: Any) -> None:
        self.host.faults.kill_at(number, when)

    async def _settle(self) -> None:
        await self.settled()

    async def step(self, what: str, *more: Any) -> None:
        await getattr(self, f"_{what}")(*more)
        await self.watch()

    async def claims(self) -> list[Any]:
        pages = [page async for page in self.client.list(CLAIMS)]
        return [CLAIMS.decode(item) for page in pages for item in page.items]

    async def problems(self) -> list[str]:
        """What is not as the laws have it."""
        claims = await self.claims()
        device_status = [one for one in claims if not one.metadata.deletion_timestamp]
        said = [f"{one.metadata.name} is not {why}" for one in claims if (why := self.missing(one))]
        taken = self.drivers() == ("vfio-pci", "vfio-pci")
        if device_status or (self.machine is not None):
            return said if taken else [*said, f"claimed, and on {self.drivers()}"]
        if self.drivers() != self.before:
            said.append(f"not claimed, and on {self.drivers()}")
        return said

    def missing(self, claim: Any) -> str:
        ready = find_condition(claim.status.conditions, "Ready")
        if claim.metadata.deletion_timestamp:
            waits = self.machine is not None and ready and ready.reason == "DeviceInUse"
            return "" if waits else "gone"
        return "" if ready and ready.status == "True" else "ready"

    async def settled(self) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while await self.problems():
                    await self.watch()
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(await self.problems()) from None

    async def calm(self) -> None:
        """No more faults: everything must come right by itself."""
        self.faults.request = self.faults.kill = 0
        self.host.faults.clear()
        await self.settled()
        await self._let_go()
        await self.settled()


WHICH = st.integers(0, 1)
EVENTS = st.one_of(
    st.tuples(st.just("claim"), WHICH),
    st.tuples(st.just("claim"), WHICH),
    st.tuples(st.just("delete"), WHICH),
    st.tuples(st.just("delete"), WHICH),
    st.tuples(st.sampled_from(["hold", "let_go", "restart", "settle"])),
    st.tuples(st.just("fail_request"), st.integers(1, 6), st.booleans()),
    st.tuples(st.just("kill"), st.integers(1, 6)),
    st.tuples(
        st.just("kill_at_write"),
        st.integers(1, 6),
        st.sampled_from(["before", "during", "after"]),
    ),
)


@pytest.fixture
def laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Plays a story; one API server and one event loop serve all stories of a test."""
    monkeypatch.setattr(PciClaimController, "taken_back_seconds", 0.05)
    for carry_out in (execute, recover):
        # A change that looks half done here is another's: waiting shows nothing new.
        monkeypatch.setitem(carry_out.__kwdefaults__, "limits", BRIEF)
    server = ApiServer()
    with asyncio.Runner() as runner:
        runner.run(server.start())
        kubeconfig = kubeconfig_of(server, tmp_path)

        async def play(events: list[Any]) -> None:
            async with (
                Client(load(kubeconfig)) as client,
                Unreliable(load(kubeconfig)) as flaky,
            ):
                flaky.faults = Faults()
                await install_crds(client)
                folder = Path(tempfile.mkdtemp(dir=tmp_path))
                story = Story(client, flaky, folder)
                try:
                    await story.start()
                    for event in events:
                        await story.step(*event)
                    await story.calm()
                    for which in range(2):
                        await story.step("delete", which)
                    await story.calm()
                    assert await story.claims() == []
                finally:
                    await story.stop()

        yield lambda events: runner.run(play(events))
        runner.run(server.stop())


@given(st.lists(EVENTS, max_size=12))
@example([("claim", 0), ("settle",), ("claim", 1), ("delete", 0), ("hold",), ("delete", 1)])
@example([("claim", 0), ("kill_at_write", 2, "during"), ("delete", 0), ("restart",), ("claim", 1)])
@settings(
    max_examples=many(15),
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
def test_a_group_is_where_its_claims_want_it_or_they_say_why_not(
    laws: Callable[..., None], story: list[Any]
) -> None:
    laws(story)
