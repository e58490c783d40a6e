"""What a node leaves behind goes with it, all of it, and nothing of any other node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from laneway.api import (
    CoreNode,
    DeviceNode,
    HostPolicy,
    HostPreparation,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VCenter,
    VGPUDevice,
    VGPULayout,
    VSphereHost,
    VSphereReservation,
)
from laneway.api.registry import KINDS
from laneway.controllers.cluster.cleanup import Cleanup
from laneway.controllers.cluster.unmatched_claims import Unanswered
from laneway.controllers.layouts.status import LAYOUTS, field_manager
from laneway.kube.client import Client, PatchType
from laneway.kube.errors import ApiError
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.leader import LEASES
from laneway.kube.resource import served
from laneway.roles.manager import LEASE, NAMESPACE

pytestmark = pytest.mark.realapi

PCI_FINALIZER = "wrangler.cattle.io/PCIDeviceClaimOnRemove"
USB_FINALIZER = "wrangler.cattle.io/usbClaimClient-device-claim-remove"
NODE_UID = "devices.harvesterhci.io/laneway-node-uid"
RECORD = "harvesterhci.io/deviceAllocationDetails"
SECONDS = 60.0


async def _furnish(world: Any, node: str) -> None:
    """Everything that an agent and the users of its devices make of a node."""
    label = {"labels": {"nodename": node}}
    name, stick = f"{node}-000008000", f"{node}-046d-c52b-003011"
    on_node = {"nodeName": node}
    uid = (await world.cluster.get(CoreNode, node)).metadata.uid
    await world.make(DeviceNode, node, metadata={"labels": {NODE_UID: uid}})
    await world.make(HostPreparation, node)
    await world.make(PCIDevice, name, metadata=label, status=on_node)
    await world.make(SRIOVGPUDevice, name, metadata=label, spec=on_node)
    await world.make(SRIOVNetworkDevice, f"{node}-eno1", metadata=label, spec=on_node)
    await world.make(MigConfiguration, name, spec=on_node)
    await world.make(USBDevice, stick, metadata=label, status=on_node)
    await world.vgpu(f"{node}-000041004")
    await world.claim(name, metadata={"finalizers": [PCI_FINALIZER]})
    await world.stick(stick, metadata={"finalizers": [USB_FINALIZER]})
    entry = {"name": name, "nodeName": node, "state": "Done", "observedGeneration": 1}
    body = {
        "apiVersion": LAYOUTS.api_version,
        "kind": LAYOUTS.kind,
        "metadata": {"name": "all"},
        "status": {"gpus": [entry]},
    }
    await world.client.patch(
        LAYOUTS,
        "all",
        body,
        patch_type=PatchType.APPLY,
        subresource="status",
        field_manager=field_manager(node),
        force=True,
    )


_OF_NO_NODE = (HostPolicy, VGPULayout, VCenter, VSphereHost, VSphereReservation)


async def _objects(world: Any) -> dict[str, set[str]]:
    return {
        kind.kind: await world.cluster.names(kind.type)
        for kind in KINDS
        if kind.type not in _OF_NO_NODE
    }


def _of(node: str) -> dict[str, set[str]]:
    name, stick = f"{node}-000008000", f"{node}-046d-c52b-003011"
    return {
        "HostPreparation": {node},
        "PCIDevice": {name},
        "PCIDeviceClaim": {name},
        "SRIOVNetworkDevice": {f"{node}-eno1"},
        "Node": {node},
        "SRIOVGPUDevice": {name},
        "VGPUDevice": {f"{node}-000041004"},
        "USBDevice": {stick},
        "USBDeviceClaim": {stick},
        "MigConfiguration": {name},
    }


async def _gone(world: Any, node: str) -> None:
    """Wait until nothing is left of a node: its own object is the last to go."""
    await world.cluster.until(DeviceNode, node, lambda obj: obj is None)


async def _reserve(world: Any, name: str, devices: list[str]) -> None:
    text = msgspec.json.encode({"hostdevices": {"a/b": devices}}).decode()
    spec = {"runStrategy": "Halted", "template": {"spec": {"domain": {"devices": {}}}}}
    asked = [{"name": f"d{n}", "deviceName": "a/b"} for n in range(len(devices))]
    spec["template"]["spec"]["domain"]["devices"] = {"hostDevices": asked}  # type: ignore[index]
    meta = {"annotations": {RECORD: text}}
    await world.make(VIRTUAL_MACHINES, name, "default", spec=spec, metadata=meta)


async def _reserved(world: Any, name: str) -> Any:
    vm = await world.client.get(VIRTUAL_MACHINES, name, "default")
    text = vm.metadata.annotations.get(RECORD)
    return text and msgspec.json.decode(text)["hostdevices"]["a/b"]


@pytest.fixture
async def furnished(world: Any) -> Any:
    """Two nodes with everything, a layout over both, and VMs that reserve of both."""
    both = ["node1", "node2"]
    await world.make(VGPULayout, "all", spec={"nodeSelector": {"names": both}})
    for node in both:
        await _furnish(world, node)
    await _reserve(world, "both", ["node1-000008000", "node2-000008000"])
    await _reserve(world, "first", ["node1-046d-c52b-003011"])
    await _reserve(world, "second", ["node2-000041004"])
    return world


async def test_everything_of_a_node_goes_with_it_and_nothing_else(furnished: Any) -> None:
    manager = await furnished.manager()
    await furnished.until(lambda lists: len(lists.get("usb", ())) == 2)
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    assert await _objects(furnished) == _of("node2")
    lists = await furnished.until(lambda lists: len(lists.get("usb", ())) == 1)
    assert len(lists["pciHostDevices"]) == 1, "node2 has one too"
    layout = await furnished.cluster.get(VGPULayout, "all")
    assert [gpu.node_name for gpu in layout.status.gpus] == ["node2"]
    assert layout.status.summary == "1 of 1"
    assert await _reserved(furnished, "both") == ["node2-000008000"]
    assert await _reserved(furnished, "first") is None
    assert await _reserved(furnished, "second") == ["node2-000041004"]
    await furnished.rest(manager)
    assert furnished.metric(manager, "laneway_nodes_cleaned_total") == 1
    assert furnished.metric(manager, "laneway_cleanup_left") == 0


@pytest.mark.slow
async def test_a_node_that_went_while_no_manager_ran_is_found(furnished: Any) -> None:
    await furnished.client.delete(served(CoreNode), "node1")
    await furnished.manager()
    await _gone(furnished, "node1")
    assert await _objects(furnished) == _of("node2")


async def test_a_node_that_is_only_being_deleted_keeps_everything(furnished: Any) -> None:
    """Its agent may be at work, and another holds it."""
    manager = await furnished.manager()
    nodes = served(CoreNode)
    held = {"metadata": {"finalizers": ["example.com/theirs"]}}
    await furnished.client.patch(nodes, "node1", held)
    await furnished.client.delete(nodes, "node1")
    await furnished.leads(manager)
    await furnished.rest(manager)
    both = {kind: names | _of("node2")[kind] for kind, names in _of("node1").items()}
    assert await _objects(furnished) == both
    await furnished.client.patch(nodes, "node1", {"metadata": {"finalizers": None}})
    await _gone(furnished, "node1")
    assert await _objects(furnished) == _of("node2")


async def test_a_node_that_harvesters_clean_up_held_is_released(furnished: Any) -> None:
    await furnished.manager()
    nodes = served(CoreNode)
    held = {"metadata": {"finalizers": ["wrangler.cattle.io/node-remove"]}}
    await furnished.client.patch(nodes, "node1", held)
    await furnished.client.delete(nodes, "node1")
    await _gone(furnished, "node1")
    assert await _objects(furnished) == _of("node2")


async def test_a_living_node_is_not_released(furnished: Any) -> None:
    manager = await furnished.manager()
    nodes = served(CoreNode)
    held = {"metadata": {"finalizers": ["wrangler.cattle.io/node-remove"]}}
    await furnished.client.patch(nodes, "node1", held)
    await furnished.leads(manager)
    await furnished.rest(manager)
    node = await furnished.client.get(nodes, "node1")
    assert list(node.metadata.finalizers) == ["wrangler.cattle.io/node-remove"]


class Stuck:
    """One object of node1 that cannot be removed while `refused`."""

    path = "sriovgpudevices/node1-000008000"
    refused = True


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    found, real = Stuck(), Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if found.refused and method == "DELETE" and path.endswith(found.path):
            raise ApiError(500, "InternalError", "a webhook is out of order")
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", call)
    yield found
    found.refused = False


async def test_one_object_that_cannot_go_keeps_no_other(
    furnished: Any, stuck: Stuck, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await furnished.manager()
    await furnished.leads(manager)
    await furnished.client.delete(served(CoreNode), "node1")
    await furnished.cluster.until(PCIDevice, "node1-000008000", lambda obj: obj is None)
    await furnished.cluster.until(PCIDeviceClaim, "node1-000008000", lambda obj: obj is None)
    await furnished.cluster.until(USBDeviceClaim, "node1-046d-c52b-003011", lambda o: o is None)
    assert (await furnished.cluster.get(DeviceNode, "node1")).metadata.name == "node1"
    await furnished.rest(manager)
    assert furnished.metric(manager, "laneway_cleanup_left") == 1
    assert "a webhook is out of order" in caplog.text
    stuck.refused = False
    await _gone(furnished, "node1")
    assert await _objects(furnished) == _of("node2")


async def test_nothing_is_left_of_a_node_that_has_come_back(furnished: Any, stuck: Stuck) -> None:
    manager = await furnished.manager()
    await furnished.leads(manager)
    await furnished.client.delete(served(CoreNode), "node1")
    await furnished.rest(manager)
    assert furnished.metric(manager, "laneway_cleanup_left") == 1
    await furnished.make(CoreNode, "node1")
    await furnished.rest(manager)
    assert furnished.metric(manager, "laneway_cleanup_left") == 0


async def test_who_no_longer_leads_tells_of_nothing_any_more(furnished: Any, stuck: Stuck) -> None:
    """Another manager counts from then on, and it counts again when its turn comes again."""
    manager = await furnished.manager()

    def reported() -> list[float | None]:
        sample = manager.registry.get_sample_value
        return [
            sample("laneway_cleanup_left"),
            sample("laneway_resource_collisions"),
            sample("laneway_permitted_entries", {"list": "pciHostDevices"}),
        ]

    await furnished.leads(manager)
    await furnished.claim("node2-000009000", "10de:25b7")  # the name of another kind of device
    await furnished.until(lambda lists: len(lists.get("pciHostDevices", ())) == 2)
    await furnished.client.delete(served(CoreNode), "node1")
    await furnished.rest(manager)
    assert reported() == [1, 1, 2]
    await _give_lease(furnished, "another", seconds=3600)
    async with asyncio.timeout(SECONDS):
        while furnished.metric(manager, "laneway_manager_leading"):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
    assert reported() == [0, 0, None]
    await furnished.make(CoreNode, "node1")
    await _give_lease(furnished, "", seconds=1)
    await furnished.leads(manager)
    await furnished.rest(manager)
    assert reported() == [0, 1, 2]


async def _give_lease(world: Any, holder: str, *, seconds: int) -> None:
    """Set the leader; none by an empty name."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds}
    await world.client.patch(LEASES, LEASE, {"spec": spec}, NAMESPACE)


async def test_a_node_is_not_cleaned_before_all_vms_are_known(
    furnished: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own object is the last to go: its reservations would never be looked at again."""
    await furnished.client.delete(served(CoreNode), "node1")
    answers, real = asyncio.Event(), Client.call

    async def call(self: Client, method: str, path: str, *args: Any) -> bytes:
        if path.endswith("/virtualmachines"):
            await answers.wait()
        return await real(self, method, path, *args)

    monkeypatch.setattr(Client, "call", call)
    manager = await furnished.manager()
    await furnished.leads(manager, at_work=False)
    [cleanup] = [part for part in manager.parts if isinstance(part, Cleanup)]
    [other] = [part for part in manager.parts if isinstance(part, Unanswered)]
    async with asyncio.timeout(SECONDS):
        while not other.leading:  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)
    cleanup.ask(cleanup.everything())
    await cleanup.queue.join()
    assert "node1" in await furnished.cluster.names(DeviceNode)
    answers.set()
    await _gone(furnished, "node1")
    assert await _reserved(furnished, "both") == ["node2-000008000"]
    assert await _reserved(furnished, "first") is None


async def test_a_node_is_cleaned_where_there_is_no_kubevirt(bare_world: Any) -> None:
    await bare_world.manager()
    await bare_world.claim("gone-000008000", metadata={"finalizers": [PCI_FINALIZER]})
    await bare_world.cluster.until(PCIDeviceClaim, "gone-000008000", lambda claim: claim is None)


@pytest.mark.slow
async def test_a_desired_state_for_a_node_that_never_was_is_left_alone(world: Any) -> None:
    spec = {"nodeName": "typo", "address": "0000:08:00.0"}
    await world.make(PCIDeviceClaim, "typo-000008000", spec=spec)
    manager = await world.manager()
    await world.leads(manager)
    await world.rest(manager)
    assert await world.cluster.names(PCIDeviceClaim) == {"typo-000008000"}


@pytest.mark.slow
async def test_a_vm_that_never_was_a_node_keeps_its_desired_states(
    furnished: Any, simulated: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """An agent may manage a VM that the cluster does not have."""
    await furnished.cluster.start_agent("alone", simulated("a2", "alone"))
    name = "alone-000008004"
    await furnished.cluster.ask(name, "NVIDIA A2-4Q")
    manager = await furnished.manager()
    await furnished.leads(manager)
    await furnished.rest(manager)
    vgpu = await furnished.cluster.answer(name, "Configured")
    assert vgpu.spec.enabled
    assert "the cluster has no record of a node alone" in caplog.text


async def test_an_agent_notes_whose_node_it_manages(world: Any, simulated: Any) -> None:
    """Also when the node is registered, or registered again, while the agent runs."""

    def noted(uid: str) -> Any:
        return lambda one: one is not None and one.metadata.labels.get(NODE_UID) == uid

    cluster = world.cluster
    await cluster.start_agent("node1", simulated("a2", "node1"))
    first = (await cluster.get(CoreNode, "node1")).metadata.uid
    await cluster.until(DeviceNode, "node1", noted(first))
    await world.client.delete(served(CoreNode), "node1")
    second = (await world.make(CoreNode, "node1")).metadata.uid
    assert second != first
    await cluster.until(DeviceNode, "node1", noted(second))


async def test_what_others_hold_keeps_only_itself(furnished: Any) -> None:
    """A finalizer that is not ours is not ours to take off."""
    theirs = {"metadata": {"finalizers": [PCI_FINALIZER, "example.com/theirs"]}}
    claims = served(PCIDeviceClaim)
    await furnished.client.patch(claims, "node1-000008000", theirs)
    await furnished.manager()
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    claim = await furnished.client.get(claims, "node1-000008000")
    assert list(claim.metadata.finalizers) == ["example.com/theirs"]
    assert claim.metadata.deletion_timestamp
    await furnished.client.patch(claims, "node1-000008000", {"metadata": {"finalizers": None}})
    assert await _objects(furnished) == _of("node2")


async def test_objects_that_name_another_node_stay_whatever_their_label_says(
    furnished: Any,
) -> None:
    label = {"labels": {"nodename": "node1"}}
    await furnished.make(VGPUDevice, "odd", metadata=label, spec={"nodeName": "node2"})
    await furnished.manager()
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    assert "odd" in await furnished.cluster.names(VGPUDevice)


async def test_a_claim_that_no_agent_answered_goes_by_its_device(furnished: Any) -> None:
    stick = "node1-0951-1666-001004"
    meta = {"labels": {"nodename": "node1"}}
    await furnished.make(USBDevice, stick, metadata=meta, status={"nodeName": "node1"})
    await furnished.make(USBDeviceClaim, stick, spec={"userName": "admin"})
    await furnished.make(USBDeviceClaim, "of-nobody", spec={"userName": "admin"})
    await furnished.manager()
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    left = await furnished.cluster.names(USBDeviceClaim)
    assert left == {"of-nobody", "node2-046d-c52b-003011"}


@pytest.mark.slow
async def test_a_node_that_comes_back_has_its_objects_made_again_and_kept(
    furnished: Any, simulated: Any
) -> None:
    manager = await furnished.manager()
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    await furnished.make(CoreNode, "node1")
    await furnished.cluster.start_agent("node1", simulated("a2", "node1"))
    made = await furnished.cluster.names(VGPUDevice)
    assert {name for name in made if name.startswith("node1-")}
    await furnished.rest(manager)
    assert await furnished.cluster.names(VGPUDevice) == made


async def test_an_agent_that_goes_on_publishing_is_not_fought(
    furnished: Any, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await furnished.manager()
    await furnished.client.delete(served(CoreNode), "node1")
    await _gone(furnished, "node1")
    await furnished.rest(manager)
    assert "still publishes" not in caplog.text
    await furnished.make(DeviceNode, "node1")
    await furnished.rest(manager)
    assert "node1" in await furnished.cluster.names(DeviceNode)
    assert "node node1 is gone, but its agent still publishes devices" in caplog.text


async def test_a_claim_that_an_agent_answered_is_enough_to_tell_of_a_node(world: Any) -> None:
    manager = await world.manager()
    await world.leads(manager)
    await world.claim("gone-000008000", metadata={"finalizers": [PCI_FINALIZER]})
    await world.cluster.until(PCIDeviceClaim, "gone-000008000", lambda claim: claim is None)
