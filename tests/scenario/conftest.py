"""A control plane of real parts in one event loop: API server, client, agents, simulated hosts.

In the realapi tier (`LANEWAY_REALAPI`) the API server is the real one that KUBECONFIG names: the
same tests, one after the other, on one server. With `LANEWAY_ADMISSION` a webhook judges what is
written, and Laneway's own parts have their own names.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import shutil
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kapilite.server import ApiServer
from laneway.api import VGPUDevice, find_condition
from laneway.api.registry import KINDS
from laneway.controllers.metrics import MetricFamilies
from laneway.controllers.timing import Timing
from laneway.core.tracing import Tracer
from laneway.host.scan import scan
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.roles.install import install_crds
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.caches import caught_up
from support.commands import Laneway, shell
from support.control_plane import DATABASE, SECONDS, embedded, given, until_served
from support.databases import with_kubevirt
from support.gpu_modes import MANAGE, SMI, gpus_of
from support.plans import BOOT, hardware_of, in_thread
from support.reviewed import reviewing, wanted
from support.reviewed import served as with_users
from support.worlds import World, started

REAL = bool(os.environ.get("LANEWAY_REALAPI"))


class Cluster:
    """The API server and what a test does to it; `start_agent` adds a node."""

    def __init__(
        self,
        client: Client,
        server: ApiServer | None,
        stack: contextlib.AsyncExitStack,
        database: Path,
    ) -> None:
        self.client = client
        self.own = self.kubevirts = client
        """What agents and managers use, and KubeVirt: other users where a webhook looks at that."""
        self.server = server
        self.config: ClusterConfig | None = None
        """How the server is reached, where no webhook tells users apart."""
        self.families = MetricFamilies()
        self.timing = Timing()
        """Of agents that are yet to be started."""
        self.tracer: Tracer | None = None
        """What takes the spans of agents and managers that are yet to be started."""
        self._stack = stack
        self._database = database
        self.folder = database.parent / "nodes"
        """What agents keep on their nodes, a folder each."""

    async def connect(self) -> Client:
        """A client of its own: the watches of many agents take up the connections of one."""
        if self.config is None:
            return self.own
        return await self._stack.enter_async_context(Client(self.config))

    async def get(self, cls: type[Any], name: str) -> Any:
        return await self.client.get(served(cls), name)

    async def names(self, cls: type[Any]) -> set[str]:
        return {obj.metadata.name for obj in await self.all(cls)}

    async def all(self, cls: type[Any]) -> list[Any]:
        resource = served(cls)
        pages = [page async for page in self.client.list(resource)]
        return [resource.decode(item) for page in pages for item in page.items]

    async def patch(self, cls: type[Any], name: str, body: dict[str, Any], sub: str = "") -> Any:
        return await self.client.patch(served(cls), name, body, subresource=sub)

    async def until(self, cls: type[Any], name: str, holds: Callable[[Any], bool]) -> Any:
        """Wait, by watching, until an object is as a test expects; None stands for no object."""
        resource = served(cls)
        async with asyncio.timeout(SECONDS):
            while True:
                page = [page async for page in self.client.list(resource)][-1]
                try:
                    obj = await self.get(cls, name)
                except NotFoundError:
                    obj = None
                if holds(obj):
                    return obj
                async for _event in self.client.watch(
                    resource, resource_version=page.resource_version, server_seconds=5
                ):
                    break

    async def start_agent(
        self,
        node: str,
        host: SimulatedHost,
        boot: str = BOOT,
        kubelet: str = "",
        *,
        dra: bool = False,
    ) -> Agent:
        """An agent that has published its host; it runs until the test ends or `stop`s it."""
        hardware = hardware_of(host, self.folder / node, boot=boot)
        agent = Agent(
            node,
            hardware,
            self.own,
            self.families,
            kubelet,
            dra=dra,
            timing=self.timing,
            tracer=self.tracer,
        )
        task = asyncio.create_task(agent.run())
        self._stack.push_async_callback(_cancel, task)
        agent.task = task  # type: ignore[attr-defined]
        waiter = asyncio.create_task(agent.ready.wait())
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            waiter.cancel()
            task.result()
        return agent

    async def stop_agent(self, agent: Agent) -> None:
        await _cancel(agent.task)  # type: ignore[attr-defined]

    async def died(self, agent: Agent) -> None:
        """Wait until a fault of its host has killed an agent."""
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({agent.task})  # type: ignore[attr-defined]
        assert agent.task.done()  # type: ignore[attr-defined]

    async def ask(self, name: str, profile: str) -> Any:
        """Desired state for a vGPU."""
        spec = {"enabled": True, "vGPUTypeName": profile}
        return await self.patch(VGPUDevice, name, {"spec": spec})

    async def disable(self, name: str) -> Any:
        """Desired state for no vGPU."""
        return await self.patch(VGPUDevice, name, {"spec": {"enabled": False}})

    async def answer(self, name: str, expected: str, cls: type[Any] = VGPUDevice) -> Any:
        """Wait until the present desired state of a VGPUDevice, or of another, is answered so."""
        return await self.until(
            cls, name, lambda obj: obj is not None and self.reason(obj) == expected
        )

    @staticmethod
    def reason(vgpu: Any) -> str:
        """The answer to the present desired state."""
        condition = find_condition(vgpu.status.conditions, "Ready")
        if condition is None or condition.observed_generation != vgpu.metadata.generation:
            return "not answered yet"
        return condition.reason

    @staticmethod
    def message(vgpu: Any) -> str:
        """The words of the answer."""
        condition = find_condition(vgpu.status.conditions, "Ready")
        return "" if condition is None else condition.message

    @staticmethod
    def carried(host: Any) -> dict[str, str]:
        """The profiles that a host carries, by function."""
        return {
            str(vgpu.address): vgpu.configured.type_name
            for vgpu in scan(host).vgpus
            if vgpu.configured is not None
        }

    async def backup(self) -> None:
        """Keep the database as it is now; that of a real server is out of reach."""
        if self.server is None:
            pytest.skip("only the embedded server can be set back to an earlier state")
        await self.server.stop()
        await asyncio.to_thread(shutil.copy, self._database, f"{self._database}.backup")
        await self.server.start()

    async def restore(self) -> None:
        """The same server at the same address, with the database of the backup."""
        assert self.server is not None
        await self.server.stop()
        await asyncio.to_thread(shutil.copy, f"{self._database}.backup", self._database)
        await self.server.start()

    async def quiet(self, agent: Agent) -> None:
        """Have the agent work on every object, as it is stored now, until it has nothing to do."""
        async with asyncio.timeout(SECONDS):
            await caught_up(self.client, [*agent.caches.waited_for, agent.caches.layouts])
            for publisher in agent.publishers:
                stored = {obj.metadata.name for obj in publisher.informer.store}
                for name in stored | set(publisher.wanted):
                    publisher.queue.add(name)
            for publisher in agent.publishers:
                await publisher.queue.join()
            agent.layout.ask_all()
            await agent.layout.queue.join()
            await agent.recorder.flush()

    def metric(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        return sum(
            sample.value
            for family in self.families.registry.collect()
            for sample in family.samples
            if sample.name == name
        )


class Gate:
    """A simulated host whose writes are counted and can be held or refused by path."""

    def __init__(self, host: SimulatedHost) -> None:
        self.host = host
        self.writes: list[str] = []
        self.held = ""
        """Writes to paths, and runs of programs, with this in them block until `open` is set."""
        self.open = threading.Event()
        self.refused = ""
        """Writes to paths with this in them are refused."""
        self._wrote = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.host, name)

    def write(self, path: str, data: str) -> None:
        """As the host does, if it may."""
        self.writes.append(path)
        self._loop.call_soon_threadsafe(self._wrote.set)
        if self.held and self.held in path:
            self.open.wait()
        if self.refused and self.refused in path:
            raise OSError(errno.EBUSY, "Device or resource busy", path)
        self.host.write(path, data)

    async def write_within(self, path: str, data: str, _seconds: float) -> None:
        """`write`, for a plan that does not wait for ever."""
        await in_thread(self.write, path, data)

    async def run(self, argv: Sequence[str], seconds: float) -> Any:
        """As the host does, once it may."""
        if self.held and self.held in argv[0]:
            self.writes.append(argv[0])
            self._wrote.set()
            await asyncio.to_thread(self.open.wait)
        return await self.host.run(argv, seconds)

    async def written(self, count: int) -> None:
        """Wait until so many writes have been begun."""
        async with asyncio.timeout(SECONDS):
            while len(self.writes) < count:
                self._wrote.clear()
                await self._wrote.wait()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    except BaseExceptionGroup as died:
        if died.split(Killed)[1] is not None:
            raise


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a server that has our CRDs, or nothing: a real one has them.

    Once for all tests, since it takes longer than many of them.
    """
    folder = tmp_path_factory.mktemp("installed")

    async def install() -> None:
        async with contextlib.AsyncExitStack() as stack:
            kubeconfig = os.environ.get("KUBECONFIG", "")
            if not REAL:
                kubeconfig, _ = await stack.enter_async_context(embedded(folder))
            client = await stack.enter_async_context(Client(load(kubeconfig)))
            await install_crds(client)
            for kind in KINDS:
                await until_served(client, kind.path)

    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, install()).result()
    return folder


@pytest.fixture(scope="session")
def kubevirt_installed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with KubeVirt's kinds, which take longer than ours."""
    return with_kubevirt(installed, tmp_path_factory.mktemp("kubevirt"))


@pytest.fixture
def beginning(request: pytest.FixtureRequest, installed: Path) -> Path:
    """What the server of a test begins with."""
    if "kubevirt_installed" in request.fixturenames:
        found: Path = request.getfixturevalue("kubevirt_installed")
        return found
    return installed


@pytest.fixture
def reviewed() -> bool:
    """Whether a webhook judges what is written."""
    return wanted()


@pytest.fixture
def webhook_tracer() -> Tracer | None:
    """What takes the spans of a webhook that judges."""
    return None


@pytest.fixture(params=["real" if REAL else "embedded"])
async def cluster(
    tmp_path: Path, beginning: Path, reviewed: bool, webhook_tracer: Tracer | None
) -> AsyncIterator[Cluster]:
    if not REAL:
        shutil.copy(beginning / DATABASE, tmp_path)
    if reviewed:
        async with _reviewed(tmp_path, webhook_tracer) as found:
            yield found
        return
    start = given if REAL else embedded
    async with (
        start(tmp_path) as (kubeconfig, server),
        contextlib.AsyncExitStack() as stack,
    ):
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        found = Cluster(client, server, stack, tmp_path / DATABASE)
        found.config = load(kubeconfig)
        yield found


@contextlib.asynccontextmanager
async def _reviewed(folder: Path, tracer: Tracer | None) -> AsyncIterator[Cluster]:
    if REAL:
        pytest.skip("there, admission is tested with the accounts of an installation")
    async with with_users(folder) as serving, contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(load(serving.kubeconfig)))
        found = Cluster(client, serving.server, stack, folder / DATABASE)
        found.own = await stack.enter_async_context(Client(serving.own))
        found.kubevirts = await stack.enter_async_context(Client(serving.kubevirts))
        async with reviewing(serving, found.families.registry, tracer):
            yield found


@pytest.fixture
async def world(cluster: Cluster, kubevirt_installed: Path, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt and manager; `world.add` adds a node with its kubelet and agent."""
    if REAL:  # Tests that share the server may have removed it.
        await install_kubevirt(cluster.client)
    async with started(cluster, tmp_path / "world") as world:
        yield world


@pytest.fixture
def laneway(cluster: Cluster, tmp_path: Path) -> Laneway:
    """Runs a command against the cluster."""
    return shell(str(tmp_path / "kubeconfig"))


@pytest.fixture
def simulated() -> Callable[[str, str], SimulatedHost]:
    """A simulated host by its SPEC."""
    return lambda spec, name: build(parse_spec(spec), name)


@pytest.fixture
def bare(simulated: Callable[[str, str], SimulatedHost]) -> Callable[..., SimulatedHost]:
    """A host as it is after a boot: no GPU has functions, and those named are in MIG mode."""

    def make(model: str = "a2", *mig: str) -> SimulatedHost:
        host = simulated(model, "node1")
        for gpu in gpus_of(host):
            assert host.call([MANAGE, "-d", gpu]).status == 0
        for gpu in mig:
            assert host.call([SMI, "-i", gpu, "-mig", "1"]).status == 0
        return host

    return make


@pytest.fixture
def impatient(cluster: Cluster) -> None:
    """An agent that tries again at once."""
    cluster.timing = Timing(retry=0.001)


@pytest.fixture
def watchful(cluster: Cluster) -> None:
    """An agent that tries again only because it sees that a holder has ended."""
    cluster.timing = Timing(retry=1000.0, holder=0.02)


@pytest.fixture
async def gate(
    simulated: Callable[[str, str], SimulatedHost],
) -> AsyncIterator[Callable[..., Gate]]:
    """A simulated host by its SPEC, of which a test sees and controls the writes."""
    gates: list[Gate] = []

    def make(spec: str, name: str) -> Gate:
        gates.append(Gate(simulated(spec, name)))
        return gates[-1]

    yield make
    for one in gates:
        one.open.set()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every request of every client, as method and path, from now on.

    But watches, and looks for a KubeVirt that is not there: those come by the clock.
    """
    seen: list[tuple[str, str]] = []
    real = Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        looks = path.endswith("/kubevirts")
        if not looks:
            seen.append((method, path))
        answer = await real(self, method, path, *args)
        if looks:
            seen.append((method, path))
        return answer

    monkeypatch.setattr(Client, "call", call)
    return seen


@pytest.fixture
def free_port() -> Iterator[Callable[[], int]]:
    """Finds ports of loopback that no other test gets until the test is over.

    They are bound and not listened on, so a server that names one may listen: servers set
    SO_REUSEADDR.
    """
    with contextlib.ExitStack() as stack:

        def find() -> int:
            held = stack.enter_context(socket.socket())
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            held.bind(("127.0.0.1", 0))
            return int(held.getsockname()[1])

        yield find
