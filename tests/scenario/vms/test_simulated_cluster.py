"""Pods and VMs on simulated nodes, with devices that a bare plugin offers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

import pytest

from laneway.core.device_plugin.offer import Form, Offer
from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.pods import PODS
from laneway.kubelet.plugins import Plugins
from laneway.sim.kubelet.pods import PodRequest
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS
from laneway.simcluster.node import mark_silent
from support.worlds import NAMESPACE, SimNode, World

RESOURCE = "intel.com/82599_VF"
DEVICES = ("0000:17:00.0", "0000:17:00.1")


@contextlib.asynccontextmanager
async def offering(node: SimNode, addresses: Sequence[str]) -> AsyncIterator[Plugins]:
    """Functions given to vfio-pci and offered to the kubelet of a node."""
    offers = []
    node.host.call(["modprobe", "vfio-pci"])
    for address in addresses:
        path = f"/sys/bus/pci/devices/{address}"
        node.host.write(f"{path}/driver/unbind", address)
        node.host.write(f"{path}/driver_override", "vfio-pci")
        node.host.write("/sys/bus/pci/drivers/vfio-pci/bind", address)
        parsed = PciAddress.parse(address)
        group = int(node.host.readlink(f"{path}/iommu_group").rpartition("/")[2])
        offers.append(
            Offer(
                resource=RESOURCE,
                id=address,
                form=Form.PCI,
                kind="PCIDevice",
                name=f"{node.name}-x",
                address=parsed,
                card=parsed,
                group=group,
            )
        )
    plugins = Plugins(node.kubelet_folder)
    plugins.offer(offers)
    task = asyncio.create_task(plugins.run())
    try:
        yield plugins
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
async def node(world: World) -> AsyncIterator[SimNode]:
    """A node with two devices to be had."""
    node = await world.add("node1", "plain", agent=False)
    async with offering(node, DEVICES):
        await world.allocatable("node1", RESOURCE, len(DEVICES))
        yield node


@pytest.mark.realapi
async def test_a_vm_gets_the_device_it_requests_and_releases_it(
    world: World, node: SimNode
) -> None:
    await world.make_vm("one", host_devices=[RESOURCE])
    instance = await world.running("one")
    assert instance.status.node_name == "node1"
    [device] = await world.opened("one")
    assert device in DEVICES
    assert list(await world.owners(node)) == [(RESOURCE, device)]
    await world.delete_vm("one")
    assert not node.holders()
    assert not await world.owners(node)
    pods = world.client.list(PODS, namespace=NAMESPACE, label_selector="kubevirt.io=virt-launcher")
    assert not [page.items async for page in pods if page.items]
    assert not [page.items async for page in world.client.list(INSTANCES) if page.items]


@pytest.mark.realapi
async def test_third_vm_waits_in_kubernetes_words_and_starts_once_there_is_room(
    world: World, node: SimNode
) -> None:
    for name in ("one", "two"):
        await world.make_vm(name, host_devices=[RESOURCE])
    for name in ("one", "two"):
        await world.running(name)
    opened = [await world.opened(name) for name in ("one", "two")]
    assert sorted(opened) == [[device] for device in DEVICES]
    await world.make_vm("three", host_devices=[RESOURCE])
    said = await world.unschedulable("three")
    assert said == f"0/1 nodes are available: 1 Insufficient {RESOURCE}."
    await world.stop_vm("one")
    await world.running("three")
    assert await world.opened("three") == opened[0]


async def test_vms_with_devices_that_are_not_permitted_wait_for_permission(
    world: World, node: SimNode
) -> None:
    host_devices = {"permittedHostDevices": {"pciHostDevices": []}}
    spec = {"spec": {"configuration": host_devices}}
    await world.client.patch(KUBEVIRTS, "kubevirt", spec, "harvester-system")
    await world.make_vm("one", host_devices=[RESOURCE], gpus=["a.com/b"])
    text = (
        "failed to render launch manifest: GPU a.com/b is not permitted in permittedHostDevices "
        f"configuration HostDevice {RESOURCE} is not permitted in permittedHostDevices "
        "configuration"
    )

    def reported(vm: object) -> bool:
        return any(one.message == text for one in vm.status.conditions)  # type: ignore[attr-defined]

    await world.until(VMS, "one", reported, NAMESPACE)


async def test_what_runs_goes_on_while_the_kubelet_is_away(world: World, node: SimNode) -> None:
    await world.make_vm("one", host_devices=[RESOURCE])
    before = await world.running("one")
    opened = await world.opened("one")
    await world.stop_kubelet(node)
    assert node.holders()
    await world.start_kubelet(node)
    await world.allocatable("node1", RESOURCE, len(DEVICES))
    await world.make_vm("two", host_devices=[RESOURCE])
    await world.running("two")
    assert await world.opened("two") != opened
    after = await world.running("one")
    assert after.metadata.uid == before.metadata.uid
    assert await world.opened("one") == opened


@pytest.mark.slow
async def test_guest_that_shuts_down_is_started_again_only_where_that_is_desired(
    world: World, node: SimNode
) -> None:
    await world.make_vm("always", host_devices=[RESOURCE])
    await world.make_vm("rerun", host_devices=[RESOURCE], strategy="RerunOnFailure")
    first = [await world.running(name) for name in ("always", "rerun")]
    await world.shut_down("rerun")
    await world.status("rerun", "Stopped")
    await world.shut_down("always")

    def restarted(instance: object) -> bool:
        return (
            instance is not None
            and instance.metadata.uid != first[0].metadata.uid  # type: ignore[attr-defined]
            and instance.status.phase == "Running"  # type: ignore[attr-defined]
        )

    await world.until(INSTANCES, "always", restarted, NAMESPACE)
    stopped = await world.client.get(INSTANCES, "rerun", NAMESPACE)
    assert stopped.status.phase == "Succeeded"
    assert stopped.metadata.uid == first[1].metadata.uid


def pod_body(name: str, count: int, **spec: object) -> dict[str, object]:
    """A pod with one container that requests devices."""
    limits = {"limits": {RESOURCE: str(count)}}
    container = {"name": "c", "image": "i", "resources": limits}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


async def test_a_pod_that_was_put_on_a_full_node_is_refused_by_its_kubelet(
    world: World, node: SimNode
) -> None:
    await world.client.create(PODS, pod_body("one", 1), NAMESPACE)
    await world.until(PODS, "one", lambda pod: pod.status.phase == "Running", NAMESPACE)
    await world.client.create(PODS, pod_body("two", 2, nodeName="node1"), NAMESPACE)
    pod = await world.until(PODS, "two", lambda pod: pod.status.phase == "Failed", NAMESPACE)
    assert (pod.status.reason, pod.status.message) == (
        "UnexpectedAdmissionError",
        (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            f"{RESOURCE}. Requested: 2, Available: 1, which is unexpected"
        ),
    )
    assert len(await world.owners(node)) == 1


async def test_pod_that_is_deleted_while_the_kubelet_is_away_goes_when_it_is_back(
    world: World, node: SimNode
) -> None:
    await world.client.create(PODS, pod_body("one", 2), NAMESPACE)
    await world.until(PODS, "one", lambda pod: pod.status.phase == "Running", NAMESPACE)
    await world.stop_kubelet(node)
    await world.client.delete(PODS, "one", NAMESPACE)
    pod = await world.client.get(PODS, "one", NAMESPACE)
    assert pod.metadata.uid in node.runtime
    await world.start_kubelet(node)
    await world.until(PODS, "one", lambda pod: pod is None, NAMESPACE)
    assert pod.metadata.uid not in node.runtime
    assert not await world.owners(node)


async def test_pod_that_was_removed_by_force_keeps_nothing(world: World, node: SimNode) -> None:
    await world.client.create(PODS, pod_body("one", 2), NAMESPACE)
    await world.until(PODS, "one", lambda pod: pod.status.phase == "Running", NAMESPACE)
    await world.stop_kubelet(node)
    await world.client.delete(PODS, "one", NAMESPACE, grace_seconds=0)
    await world.start_kubelet(node)
    await world.allocatable("node1", RESOURCE, len(DEVICES))
    assert not node.runtime.uids
    assert not await world.owners(node)


async def test_devices_that_were_given_to_a_pod_which_never_started_are_free_again(
    world: World, node: SimNode
) -> None:
    containers = {"c": {RESOURCE: 2}}
    gone = PodRequest(uid="gone", namespace=NAMESPACE, name="gone", containers=containers)
    await node.kubelet.admit(gone)
    assert len(await world.owners(node)) == 2
    await world.restart_kubelet(node)
    assert not await world.owners(node)


@pytest.mark.slow
async def test_node_whose_kubelet_is_silent_gets_no_pods(world: World, node: SimNode) -> None:
    await world.stop_kubelet(node)
    await mark_silent(world.client, running=())
    await world.make_vm("one", host_devices=[RESOURCE])
    said = await world.unschedulable("one")
    taint = "node(s) had untolerated taint {node.kubernetes.io/not-ready: }"
    assert said == f"0/1 nodes are available: 1 {taint}."
    await world.start_kubelet(node)
    await world.running("one")
