"""The way of a new user: `laneway up --vsphere`, the examples of the docs, a simulated vCenter."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.kubectl import KUBECTL, Kubectl
from support.processes import READY, Laneway
from support.vcenter import Simulator

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "vsphere"
ARGUMENTS = ("--no-local", "--vsphere", "--port", "0", "--ui-port", "0", "--data-dir")
WAIT = "--timeout=60s"

pytestmark = pytest.mark.skipif(not KUBECTL, reason="there is no kubectl: install it")


@pytest.fixture
def start() -> Iterator[Callable[[Path], Laneway]]:
    """Starts Laneway; whatever of it still runs at the end is killed."""
    started: list[Laneway] = []

    def start(data: Path) -> Laneway:
        started.append(Laneway("up", *ARGUMENTS, str(data)))
        started[-1].until(READY)
        return started[-1]

    yield start
    for one in started:
        one.end(signal.SIGKILL)


class Person:
    """A user with kubectl."""

    def __init__(self, data: Path) -> None:
        self._kubectl = Kubectl(str(data / "kubeconfig"))

    async def types(self, *arguments: str, stdin: str = "") -> str:
        done = await self._kubectl.run(*arguments, stdin=stdin)
        assert done.status == 0, done.err
        return done.out

    async def sees(self, kind: str) -> list[Any]:
        found: list[Any] = json.loads(await self.types("get", kind, "-o", "json"))["items"]
        return found

    async def follows(self, vcenter: Simulator) -> None:
        """Tells Laneway of a vCenter, as the docs say; this one has a certificate of its own."""
        text = (EXAMPLES / "vcenter.yaml").read_text().replace("127.0.0.1:8989", vcenter.server)
        text, changed = re.subn("thumbprint: .*", f'thumbprint: "{vcenter.thumbprint}"', text)
        assert changed == 1
        await self.types("apply", "-f", "-", stdin=text)
        await self.types("wait", "vcenter/lab", "--for=condition=Ready", WAIT)

    async def makes_machines(self, vcenter: Simulator, count: int) -> None:
        text = (EXAMPLES / "cluster.yaml").read_text().replace("127.0.0.1:8989", vcenter.server)
        await self.types("apply", "-f", "-", stdin=text)
        for deployment in ("two-t4", "half-t4"):
            about = f"machinedeployment/{deployment}"
            await self.types("wait", about, "--for=condition=Available", WAIT)
        replicas = "--for=jsonpath={.status.readyReplicas}=2"
        await self.types("wait", "machinedeployment/half-t4", replicas, WAIT)
        replicas = "--for=jsonpath={.status.readyReplicas}=1"
        await self.types("wait", "machinedeployment/two-t4", replicas, WAIT)
        assert len(await self.sees("machines")) == count


@pytest.mark.timeout(300)
async def test_from_an_empty_directory_to_machines_with_gpus_and_one_too_many(
    tmp_path: Path, vcenter: Simulator, start: Callable[[Path], Laneway]
) -> None:
    up = start(tmp_path)
    person = Person(tmp_path)
    await person.follows(vcenter)

    await person.makes_machines(vcenter, 3)

    machines = await person.sees("vspheremachines")
    names = [one["metadata"]["name"] for one in machines]
    await person.types(
        *("wait", "--for=condition=GPUNodeReady", WAIT),
        *(f"vspheremachine/{name}" for name in names),
    )
    gpus = {
        node["metadata"]["name"].rsplit("-", 2)[0]: node["status"]["allocatable"]["nvidia.com/gpu"]
        for node in await person.sees("nodes")
    }
    assert gpus == {"two-t4": "2", "half-t4": "1"}
    assert sorted(vcenter.users()) == [
        ("DC0_C0_H0", "0000:3b:00.0"),
        ("DC0_C0_H0", "0000:af:00.0"),
        ("DC0_C0_H1", "0000:3b:00.0"),
    ]

    await person.types("scale", "machinedeployment", "half-t4", "--replicas=3")
    [fourth] = [one for one in await _four(person) if one["metadata"]["name"] not in names]
    name = fourth["metadata"]["name"]
    await person.types(
        "wait",
        f"vspheremachine/{name}",
        "--for=jsonpath={.status.conditions[?(@.type=='PCIDevicesReady')].reason}=NoRoom",
        WAIT,
    )
    reported = await person.types("describe", "vspheremachine", name)
    assert "grid_t4-8q: 1 requested, 0 of 2 free" in reported
    await person.types("scale", "machinedeployment", "half-t4", "--replicas=2")
    gone = (f"vspheremachine/{name}", f"machine/{name}")
    await person.types("wait", "--for=delete", *gone, WAIT)

    assert up.end() == 0
    start(tmp_path)
    assert [one["metadata"]["name"] for one in await person.sees("vspheremachines")] == names
    assert {one["status"]["phase"] for one in await person.sees("machines")} == {"Running"}

    await person.types("delete", "cluster", "lab", WAIT)
    assert not await person.sees("machines,vspheremachines,vspherevms,vspherereservations,nodes")
    assert not vcenter.users()


async def _four(person: Person) -> list[Any]:
    deployment = "machinedeployment/half-t4"
    await person.types("wait", deployment, "--for=jsonpath={.status.replicas}=3", WAIT)
    await person.types("wait", deployment, "--for=jsonpath={.status.upToDateReplicas}=3", WAIT)
    found = await person.sees("vspheremachines")
    assert len(found) == 4
    return found


@pytest.mark.timeout(300)
async def test_a_machine_gets_gpus_and_their_network_card(
    tmp_path: Path, vcenter: Simulator, start: Callable[[Path], Laneway]
) -> None:
    start(tmp_path)
    person = Person(tmp_path)
    await person.follows(vcenter)
    await person.makes_machines(vcenter, 3)
    template = "vspheremachinetemplate/gpudirect"
    await person.types("apply", "-f", str(EXAMPLES / "gpudirect.yaml"))
    replicas = "--for=jsonpath={.status.readyReplicas}=1"
    await person.types("wait", "machinedeployment/gpudirect", replicas, WAIT)
    capacity = "--for=jsonpath={.status.capacity.nvidia\\.com/gpu}=2"
    await person.types("wait", template, capacity, WAIT)
    name = await person.types(
        "get", "machines", "-l", "pool=gpudirect", "-o", "jsonpath={.items[*].metadata.name}"
    )
    assert (
        vcenter.users().items()
        >= {("DC0_C0_H2", f"0000:{at}:00.0"): {name: [""]} for at in ("86", "87", "88")}.items()
    )
    await person.types("wait", f"vspheremachine/{name}", "--for=condition=GPUNodeReady", WAIT)
    gpus = "jsonpath={.status.allocatable.nvidia\\.com/gpu}"
    assert await person.types("get", "node", name, "-o", gpus) == "2"


async def test_every_example_is_taken(tmp_path: Path, start: Callable[[Path], Laneway]) -> None:
    start(tmp_path)
    person = Person(tmp_path)
    for example in sorted(EXAMPLES.glob("*.yaml")):
        await person.types("apply", "-f", str(example))
    await person.types("delete", "cluster", "lab", WAIT)
