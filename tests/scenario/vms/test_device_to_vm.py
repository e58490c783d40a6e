"""From device to VM and back: the whole way, with every part that has a hand in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.core import keys
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.pods import PODS
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import VMS
from support.examples import first
from support.worlds import NAMESPACE, World

PROFILE = "NVIDIA A2-2Q"
VGPU = "nvidia.com/NVIDIA_A2-2Q"
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


def given(vm: Any) -> dict[str, dict[str, list[str]]]:
    """What a VM has, as the manager wrote it on the VM."""
    return json.loads(vm.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, "{}"))


async def permitted(world: World) -> dict[str, set[str]]:
    """What KubeVirt permits, by list."""
    kubevirt = await world.client.get(KUBEVIRTS, "kubevirt", "harvester-system")
    lists = kubevirt.spec.configuration.permitted_host_devices
    return {
        "pci": {one["resourceName"] for one in lists.pci_host_devices},
        "mdev": {one["resourceName"] for one in lists.mediated_devices},
    }


@pytest.mark.realapi
@pytest.mark.parametrize("model", first("a2", "a2-vfio"))
async def test_vm_with_two_vgpus_and_a_function_runs_where_they_are(
    world: World, model: str
) -> None:
    await world.add("node1", "plain")
    node = await world.add("node2", model)
    vgpus = ["node2-000008004", "node2-000008005"]
    for name in vgpus:
        await world.vgpu(name, PROFILE)
    await world.claim("node1-000004001")
    await world.claim("node2-000004001")
    await world.allocatable("node2", VGPU, 2)
    await world.allocatable("node2", NIC, 1)

    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU, VGPU])
    instance = await world.running("vm1")
    assert instance.status.node_name == "node2"
    made = [await world.client.get(served(VGPUDevice), name) for name in vgpus]
    ids = [one.status.uuid if model == "a2" else one.spec.address for one in made]
    assert await world.opened("vm1") == sorted(["0000:04:00.1", *ids])
    assert set(await world.owners(node)) == {(NIC, "0000:04:00.1"), *((VGPU, one) for one in ids)}
    assert await permitted(world) == {
        "pci": {NIC} if model == "a2" else {NIC, VGPU},
        "mdev": {VGPU} if model == "a2" else set(),
    }

    # Whose they are is said on every object.
    def is_owned(obj: Any, vm: str = "vm1") -> bool:
        return obj.status.allocation is not None and obj.status.allocation.virtual_machine == vm

    await world.until(served(PCIDeviceClaim), "node2-000004001", is_owned)
    for name in vgpus:
        await world.until(served(VGPUDevice), name, is_owned)
    function = {NIC: ["node2-000004001"]}
    wanted = (
        {"hostdevices": function, "gpus": {VGPU: vgpus}}
        if model == "a2"
        else {"hostdevices": {**function, VGPU: vgpus}}
    )
    await world.until(VMS, "vm1", lambda one: given(one) == wanted, NAMESPACE)

    # A third vGPU is nowhere to be had.
    await world.make_vm("vm2", gpus=[VGPU])
    said = await world.unschedulable("vm2")
    assert said == f"0/2 nodes are available: 2 Insufficient {VGPU}."

    # All comes back, and the one that waited has its turn.
    await world.delete_vm("vm1")
    await world.running("vm2")
    [held] = await world.opened("vm2")
    # Until the agent has seen it with the VM, it takes the VM for one that is still starting.
    name = vgpus[ids.index(held)]
    await world.until(served(VGPUDevice), name, lambda one: is_owned(one, "vm2"))
    await world.delete_vm("vm2")
    assert not node.holders()
    await world.until(
        served(PCIDeviceClaim), "node2-000004001", lambda one: one.status.allocation is None
    )
    for name in vgpus:
        await world.until(served(VGPUDevice), name, lambda one: one.status.allocation is None)

    # And so does the hardware.
    for name in vgpus:
        await world.cluster.disable(name)
    for name in ("node1-000004001", "node2-000004001"):
        await world.release(name)
    for name in vgpus:
        await world.until(served(VGPUDevice), name, lambda one: one.status.uuid == "")
    device = await world.client.get(served(PCIDevice), "node2-000004001")
    assert device.status.kernel_driver_in_use == "igb"
    await world.allocatable("node2", VGPU, 0)
    await world.until(
        KUBEVIRTS,
        "kubevirt",
        lambda one: (
            not one.spec.configuration.permitted_host_devices.pci_host_devices
            and not one.spec.configuration.permitted_host_devices.mediated_devices
        ),
        "harvester-system",
    )


@pytest.mark.slow
@pytest.mark.realapi
async def test_the_name_of_a_guest_changes_no_owner(world: World) -> None:
    node = await world.add("node1", "a2-vfio")
    vgpus = ["node1-000008004", "node1-000008005"]
    for name in vgpus:
        await world.vgpu(name, PROFILE)
    await world.allocatable("node1", VGPU, 2)
    # KubeVirt writes the hostname on a VM's pod, and that is another VM's name.
    vms = {"first": "", "second.office": "first"}
    for name, hostname in vms.items():
        await world.make_vm(name, gpus=[VGPU], hostname=hostname)
        await world.running(name)

    owners = set()
    for owner in (await world.owners(node)).values():
        pod = await world.client.get(PODS, owner.pod, NAMESPACE)
        assert pod.metadata.labels["vm.kubevirt.io/name"] == "first"
        owners.add((pod.metadata.name, pod.metadata.annotations["kubevirt.io/domain"]))
    assert {vm for _, vm in owners} == vms.keys()
    for name in vgpus:
        reported = await world.until(
            served(VGPUDevice), name, lambda one: one.status.allocation is not None
        )
        vm = reported.status.allocation.virtual_machine
        owners.remove((reported.status.allocation.pod, vm))
        kept = await world.until(VMS, vm, given, NAMESPACE)
        assert given(kept) == {"hostdevices": {VGPU: [name]}}
