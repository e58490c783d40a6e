"""Every VM carries the record of its devices, and a stopped one its reservation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.api import PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.controllers.cluster.allocation import CONFLICT_SECONDS, Allocating
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.cluster.metrics import ManagerMetrics
from laneway.kube.controller import Retry
from laneway.kube.kubevirt import INSTANCES, VIRTUAL_MACHINES
from laneway.kube.resource import key_of, served
from support.examples import first

pytestmark = pytest.mark.realapi

KEY = "harvesterhci.io/deviceAllocationDetails"
A2 = "nvidia.com/GA107GL_A2"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
STICK = "kubevirt.io/node1-046d-c52b-003011"
HELD = {"namespace": "default", "pod": "virt-launcher-desk-x", "virtualMachine": "desk"}


class Machine:
    """One VM, as its user and KubeVirt write it."""

    def __init__(self, world: Any, name: str = "desk") -> None:
        self.world = world
        self.client = world.client
        self.name = name

    @staticmethod
    def spec(*devices: str, gpus: tuple[str, ...] = ()) -> dict[str, Any]:
        def requests(kind: str, names: tuple[str, ...]) -> list[dict[str, str]]:
            return [{"name": f"{kind}{n}", "deviceName": name} for n, name in enumerate(names)]

        asked = {"hostDevices": requests("host", devices), "gpus": requests("gpu", gpus)}
        return {"domain": {"devices": asked}}

    async def made(self, *devices: str, gpus: tuple[str, ...] = (), **meta: Any) -> None:
        spec = {"runStrategy": "Halted", "template": {"spec": self.spec(*devices, gpus=gpus)}}
        await self.world.make(VIRTUAL_MACHINES, self.name, "default", spec=spec, metadata=meta)

    async def runs(self, *devices: str, gpus: tuple[str, ...] = ()) -> None:
        await self.starts(*devices, gpus=gpus)
        await self.has_started()

    async def starts(self, *devices: str, gpus: tuple[str, ...] = ()) -> None:
        spec = self.spec(*devices, gpus=gpus)
        await self.world.make(INSTANCES, self.name, "default", spec=spec)

    async def has_started(self, node: str = "") -> None:
        await self.tells(phase="Running", nodeName=node)

    async def tells(self, **status: str) -> None:
        """What KubeVirt says of the instance."""
        await self.client.patch(INSTANCES, self.name, {"status": status}, "default")

    async def stops(self) -> None:
        await self.client.delete(INSTANCES, self.name, "default")

    async def asks(self, *devices: str) -> None:
        body = {"spec": {"template": {"spec": self.spec(*devices)}}}
        await self.client.patch(VIRTUAL_MACHINES, self.name, body, "default")

    async def stored(self) -> Any:
        return await self.client.get(VIRTUAL_MACHINES, self.name, "default")

    async def record(self) -> Any:
        text = (await self.stored()).metadata.annotations.get(KEY)
        try:
            return None if text is None else msgspec.json.decode(text)
        except msgspec.DecodeError:
            return text

    async def until(self, expected: Any) -> None:
        """Wait, by watching, for a record."""
        while True:
            version = (await self.stored()).metadata.resource_version
            if await self.record() == expected:
                return
            async for _ in self.client.watch(
                VIRTUAL_MACHINES, "default", resource_version=version, server_seconds=5
            ):
                break


@pytest.fixture
def desk(world: Any) -> Machine:
    return Machine(world)


async def test_the_record_says_what_the_kubelet_gave(world: Any, desk: Machine) -> None:
    await world.manager()
    await desk.made(A2, A2, STICK, gpus=(VGPU,))
    await world.claim("node1-000009000")
    await world.claim("node1-000008000")
    await world.claim("node1-00000a000")
    await world.stick("node1-046d-c52b-003011")
    await world.vgpu("node1-000041004")
    await desk.runs(A2, A2, STICK, gpus=(VGPU,))
    await world.tell(PCIDeviceClaim, "node1-000009000", allocation=HELD)
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    await world.tell(USBDeviceClaim, "node1-046d-c52b-003011", allocation=HELD)
    await world.tell(VGPUDevice, "node1-000041004", allocation=HELD)
    other = HELD | {"virtualMachine": "another"}
    await world.tell(PCIDeviceClaim, "node1-00000a000", allocation=other)
    await desk.until(
        {
            "gpus": {VGPU: ["node1-000041004"]},
            "hostdevices": {
                A2: ["node1-000008000", "node1-000009000"],
                STICK: ["node1-046d-c52b-003011"],
            },
        }
    )


async def test_a_vgpu_of_the_vendors_framework_is_a_host_device_once(
    world: Any, desk: Machine
) -> None:
    await world.manager()
    await desk.made(gpus=(VGPU,))
    await world.claim("node1-000041004", resource=VGPU)
    await world.vgpu("node1-000041004", status={"framework": "vendor-vfio"})
    await desk.runs(VGPU)
    await world.tell(PCIDeviceClaim, "node1-000041004", allocation=HELD)
    await world.tell(VGPUDevice, "node1-000041004", allocation=HELD)
    await desk.until({"hostdevices": {VGPU: ["node1-000041004"]}})


async def test_the_users_spec_and_other_annotations_are_not_touched(
    world: Any, desk: Machine
) -> None:
    await world.manager()
    await desk.made(A2, annotations={"theirs": "1"})
    before = (await desk.stored()).metadata
    path = "/apis/kubevirt.io/v1/namespaces/default/virtualmachines/desk"
    spec = msgspec.json.decode(await world.client.raw(path))["spec"]
    await world.claim("node1-000008000")
    await desk.runs(A2)
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    await desk.until({"hostdevices": {A2: ["node1-000008000"]}})
    stored = msgspec.json.decode(await world.client.raw(path))
    assert stored["spec"] == spec
    assert stored["metadata"]["annotations"]["theirs"] == "1"
    assert stored["metadata"]["generation"] == before.generation
    assert not stored["metadata"].get("finalizers")
    instance = await world.client.get(INSTANCES, "desk", "default")
    assert instance.metadata.finalizers in ([], ())


async def test_a_stopped_vm_keeps_what_it_had_and_gets_another_record_when_it_runs(
    world: Any, desk: Machine
) -> None:
    manager = await world.manager()
    await desk.made(A2)
    await world.claim("node1-000008000")
    await world.claim("node2-000008000")
    await desk.runs(A2)
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    first = {"hostdevices": {A2: ["node1-000008000"]}}
    await desk.until(first)
    await desk.stops()
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=None)
    await world.leads(manager)
    await world.rest(manager)
    assert await desk.record() == first
    await desk.runs(A2)
    await world.rest(manager)
    assert await desk.record() == first, "until the agents have told"
    await world.tell(PCIDeviceClaim, "node2-000008000", allocation=HELD)
    await desk.until({"hostdevices": {A2: ["node2-000008000"]}})


async def test_what_a_stopped_vm_no_longer_requests_is_taken_off(world: Any, desk: Machine) -> None:
    await world.manager()
    had = {"hostdevices": {A2: ["node1-000008000", "node1-000009000"], STICK: ["stick"]}}
    await desk.made(A2, A2, STICK, annotations={KEY: msgspec.json.encode(had).decode()})
    await desk.asks(A2)
    await desk.until({"hostdevices": {A2: ["node1-000008000"]}})
    await desk.asks()
    await desk.until(None)


async def test_what_a_stopped_vm_requests_by_name_as_well_is_added(
    world: Any, desk: Machine
) -> None:
    await world.manager()
    first, second, taken = (f"node1-00000{bus}000" for bus in (8, 9, 7))
    had = {"hostdevices": {A2: [first]}}
    await desk.made(A2, annotations={KEY: msgspec.json.encode(had).decode()})
    for name in (second, taken):
        await world.claim(name)
        await world.tell(PCIDeviceClaim, name, resourceName=A2)
    await world.tell(PCIDeviceClaim, taken, allocation={**HELD, "virtualMachine": "other"})
    spec = desk.spec(A2, A2, A2)
    asked = spec["domain"]["devices"]["hostDevices"]
    asked[1]["name"], asked[2]["name"] = second, taken
    template = {"spec": {"template": {"spec": spec}}}
    await world.client.patch(VIRTUAL_MACHINES, desk.name, template, "default")
    await desk.until({"hostdevices": {A2: [first, second]}})


async def test_a_vm_that_runs_is_edited_without_any_change(world: Any, desk: Machine) -> None:
    manager = await world.manager()
    had = {"hostdevices": {A2: ["node1-000008000"]}}
    await desk.made(A2, annotations={KEY: msgspec.json.encode(had).decode()})
    await desk.runs(A2)
    await desk.asks()
    await world.leads(manager)
    await world.rest(manager)
    assert await desk.record() == had


async def test_a_vm_that_runs_without_devices_has_no_record(world: Any, desk: Machine) -> None:
    manager = await world.manager()
    had = {"hostdevices": {A2: ["node1-000008000"]}}
    await desk.made(A2, annotations={KEY: msgspec.json.encode(had).decode()})
    await world.leads(manager)
    await desk.starts()
    await world.rest(manager)
    assert await desk.record() == had, "it does not run yet, and may never"
    await desk.has_started()
    await desk.until(None)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("mixed", first(False, True))
async def test_devices_that_are_released_one_by_one_all_stay_reserved(
    world: Any, desk: Machine, mixed: bool, first: int
) -> None:
    """A pod ends, and its instance is still there: RerunOnFailure keeps one that has succeeded."""
    manager = await world.manager()
    await desk.made(*((A2,) if mixed else (A2, A2)), gpus=(VGPU,) if mixed else ())
    await world.claim("node1-000008000")
    devices: list[tuple[type[Any], str]] = [(PCIDeviceClaim, "node1-000008000")]
    if mixed:
        await world.vgpu("node1-000041004")
        devices.append((VGPUDevice, "node1-000041004"))
        full = {"gpus": {VGPU: ["node1-000041004"]}, "hostdevices": {A2: ["node1-000008000"]}}
    else:
        await world.claim("node1-000009000")
        devices.append((PCIDeviceClaim, "node1-000009000"))
        full = {"hostdevices": {A2: ["node1-000008000", "node1-000009000"]}}
    await desk.runs(*((A2,) if mixed else (A2, A2)), gpus=(VGPU,) if mixed else ())
    for kind, name in devices:
        await world.tell(kind, name, allocation=HELD)
    await desk.until(full)
    await desk.tells(phase="Succeeded")
    await world.leads(manager)
    for kind, name in (devices[first], devices[1 - first]):
        await world.tell(kind, name, allocation=None)
        await world.rest(manager)
        assert await desk.record() == full
    await desk.stops()
    await world.rest(manager)
    assert await desk.record() == full


async def test_a_vm_that_comes_back_with_fewer_devices_has_a_shorter_record(
    world: Any, desk: Machine
) -> None:
    await world.manager()
    had = {"gpus": {VGPU: ["node1-000041004"]}, "hostdevices": {A2: ["node1-000008000"]}}
    await desk.made(A2, annotations={KEY: msgspec.json.encode(had).decode()})
    await world.claim("node1-000008000")
    await desk.runs(A2, "example.com/of_another_plugin")
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    await desk.until({"hostdevices": {A2: ["node1-000008000"]}})


async def test_what_a_dead_node_still_says_is_not_in_the_record_of_one_that_runs_elsewhere(
    world: Any, desk: Machine
) -> None:
    """The agent of the dead node cannot take back what it has said."""
    await world.manager()
    await desk.made(A2)
    await world.claim("node1-000008000", status={"allocation": HELD})
    await world.stick("node1-046d-c52b-003011", status={"allocation": HELD})
    await world.vgpu("node1-000041004", status={"allocation": HELD})
    await world.claim("node2-000008000")
    await desk.starts(A2)
    await world.tell(PCIDeviceClaim, "node2-000008000", allocation=HELD)
    await desk.has_started("node2")
    await desk.until({"hostdevices": {A2: ["node2-000008000"]}})


@pytest.mark.parametrize("spoilt", first("{", "", "[]", '{"gpus":3}'))
async def test_a_spoilt_record_stops_nothing(world: Any, desk: Machine, spoilt: str) -> None:
    await world.manager()
    await desk.made(A2, annotations={KEY: spoilt})
    await world.claim("node1-000008000")
    await desk.runs(A2)
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    await desk.until({"hostdevices": {A2: ["node1-000008000"]}})


async def test_nothing_is_written_at_rest(
    world: Any, desk: Machine, requests: list[tuple[str, str]]
) -> None:
    manager = await world.manager()
    await desk.made(A2)
    await world.claim("node1-000008000")
    await desk.runs(A2)
    await world.tell(PCIDeviceClaim, "node1-000008000", allocation=HELD)
    await desk.until({"hostdevices": {A2: ["node1-000008000"]}})
    await world.rest(manager)
    requests.clear()
    await world.rest(manager)
    written = [path for method, path in requests if method != "GET" and "leases" not in path]
    assert written == []


async def test_a_claim_that_is_gone_leaves_the_record_of_a_stopped_vm(
    world: Any, desk: Machine
) -> None:
    """Only its user may give a reservation up."""
    manager = await world.manager()
    had = {"hostdevices": {A2: ["node1-000008000"]}}
    await desk.made(A2, annotations={KEY: msgspec.json.encode(had).decode()})
    await world.claim("node1-000008000", status={"allocation": HELD})
    await world.client.delete(served(PCIDeviceClaim), "node1-000008000")
    await world.leads(manager)
    await world.rest(manager)
    assert await desk.record() == had


@pytest.mark.parametrize("deleted", [True, False])
async def test_a_vm_that_changes_while_its_record_is_written_is_looked_at_again_while_it_is_there(
    world: Any, desk: Machine, deleted: bool
) -> None:
    await desk.made(annotations={KEY: "{}"})
    await desk.runs()
    caches = Caches.of(world.client)
    caches.vms.store.put(vm := await desk.stored())
    caches.instances.store.put(await world.client.get(INSTANCES, desk.name, "default"))
    allocating = Allocating(world.client, caches, ManagerMetrics(CollectorRegistry()))
    await desk.asks(A2)
    if deleted:
        await world.client.delete(VIRTUAL_MACHINES, desk.name, "default")

    retry = await allocating.reconcile(key_of(vm))

    assert retry == (None if deleted else Retry(CONFLICT_SECONDS))
