"""What becomes of VMs and their devices when something dies, goes, or is taken away."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice, find_condition
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS
from support.examples import first
from support.worlds import NAMESPACE, SimNode, World

PROFILE = "NVIDIA A2-8Q"
VGPU = "nvidia.com/NVIDIA_A2-8Q"
VGPUS = ("node1-000008004", "node1-000008005")
NIC = "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
CLAIM = "node1-000004001"
FUNCTION = "/sys/bus/pci/devices/0000:04:00.1"
GPU, AUDIO = (
    "nvidia.com/GP104_GEFORCE_GTX_1080",
    "nvidia.com/GP104_HIGH_DEFINITION_AUDIO_CONTROLLER",
)


@pytest.fixture(params=first("a2", "a2-vfio"))
async def node(world: World, request: pytest.FixtureRequest) -> SimNode:
    """A node with two vGPUs, as many as fit, and a network function."""
    node = await world.add("node1", request.param)
    for name in VGPUS:
        await world.vgpu(name, PROFILE)
    await world.claim(CLAIM)
    await world.allocatable("node1", VGPU, 2)
    await world.allocatable("node1", NIC, 1)
    return node


async def has(world: World, cls: type[Any], name: str, vm: str) -> None:
    """Wait until an object says that a VM has its device; empty: no VM."""

    def holds(one: Any) -> bool:
        allocation = one.status.allocation
        return ("" if allocation is None else allocation.virtual_machine) == vm

    await world.until(served(cls), name, holds)


async def test_two_vms_race_for_the_last_vgpu(world: World, node: SimNode) -> None:
    await world.make_vm("first", gpus=[VGPU])
    await world.running("first")
    for name in ("a", "b"):
        await world.make_vm(name, gpus=[VGPU])
    states = [(await world.status(n, "Running", "ErrorUnschedulable")) for n in ("a", "b")]
    found = {one.status.printable_status: one.metadata.name for one in states}
    assert set(found) == {"Running", "ErrorUnschedulable"}
    held = [path for paths in node.holders().values() for path in paths]
    assert len(held) == len(set(held)) == 2
    await world.delete_vm(found["Running"])
    await world.running(found["ErrorUnschedulable"])


async def test_an_instance_that_is_refused_stands_on_its_vm_until_it_is_made(
    world: World,
) -> None:
    await world.add("node1", "plain")
    body = {
        "apiVersion": VMS.api_version,
        "kind": VMS.kind,
        "metadata": {"name": "vm"},
        "spec": {
            "runStrategy": "Always",
            "template": {
                "metadata": {"labels": {"app": "no label"}},
                "spec": {"domain": {"devices": {}}},
            },
        },
    }
    await world.client.create(VMS, body, NAMESPACE)
    failed = await world.until(
        VMS, "vm", lambda one: find_condition(one.status.conditions, "Failure"), NAMESPACE
    )
    reported = find_condition(failed.status.conditions, "Failure")
    assert (reported.status, reported.reason) == ("True", "FailedCreate")
    assert "no label" in reported.message
    right = {"spec": {"template": {"metadata": {"labels": {"app": "label"}}}}}
    await world.client.patch(VMS, "vm", right, NAMESPACE)
    await world.running("vm")
    started = await world.until(VMS, "vm", lambda one: one.status.ready, NAMESPACE)
    assert find_condition(started.status.conditions, "Failure") is None


@pytest.mark.slow
async def test_device_of_a_stopped_vm_goes_to_who_asks(world: World, node: SimNode) -> None:
    await world.make_vm("keeper", host_devices=[NIC])
    await world.running("keeper")
    await world.stop_vm("keeper")
    await has(world, PCIDeviceClaim, CLAIM, "")
    await world.make_vm("other", host_devices=[NIC])
    await world.running("other")
    await has(world, PCIDeviceClaim, CLAIM, "other")
    await world.run_vm("keeper", on=True)
    assert "Insufficient" in await world.unschedulable("keeper")
    await world.stop_vm("other")
    await world.running("keeper")


@pytest.mark.slow
async def test_kubelet_dies_while_it_requests_devices(world: World, node: SimNode) -> None:
    node.kubelet.faults.die_before_allocate = True
    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU])
    pod = await world.pod_of("vm1")
    assert pod.status.phase == "Pending"
    assert not node.holders()
    await world.restart_kubelet(node)
    await world.running("vm1")
    assert len(await world.opened("vm1")) == 2
    assert len(await world.owners(node)) == 2


@pytest.mark.slow
async def test_agent_is_killed_while_vms_run(world: World, node: SimNode) -> None:
    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU])
    before = await world.running("vm1")
    held, owned = node.holders(), await world.owners(node)
    await world.kill_agent(node)
    assert (node.holders(), await world.owners(node)) == (held, owned)
    await world.start_agent(node)
    await world.allocatable("node1", VGPU, 2)
    await world.make_vm("vm2", gpus=[VGPU])
    await world.running("vm2")
    await world.make_vm("vm3", gpus=[VGPU])
    await world.unschedulable("vm3")
    after = await world.running("vm1")
    assert after.metadata.uid == before.metadata.uid
    assert {uid: paths for uid, paths in node.holders().items() if uid in held} == held
    await has(world, PCIDeviceClaim, CLAIM, "vm1")


@pytest.mark.slow
async def test_node_is_booted(world: World, node: SimNode) -> None:
    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU, VGPU])
    before = await world.running("vm1")
    await world.boot(node)

    def restarted(instance: Any) -> bool:
        return (
            instance is not None
            and instance.metadata.uid != before.metadata.uid
            and instance.status.phase == "Running"
        )

    await world.until(INSTANCES, "vm1", restarted, NAMESPACE)
    assert len(await world.opened("vm1")) == 3
    for name in VGPUS:
        await has(world, VGPUDevice, name, "vm1")
    await has(world, PCIDeviceClaim, CLAIM, "vm1")


@pytest.mark.slow
async def test_claim_is_released_while_its_device_is_in_use(world: World, node: SimNode) -> None:
    await world.make_vm("vm1", host_devices=[NIC])
    await world.running("vm1")
    claims = served(PCIDeviceClaim)
    await world.client.delete(claims, CLAIM)

    def waits(claim: Any) -> bool:
        ready = find_condition(claim.status.conditions, "Ready")
        return (
            claim.metadata.deletion_timestamp is not None
            and ready.status == "False"
            and "vm1" in ready.message
        )

    await world.until(claims, CLAIM, waits)
    assert await world.opened("vm1") == ["0000:04:00.1"]
    await world.allocatable("node1", NIC, 0)
    await world.make_vm("vm2", host_devices=[NIC])
    await world.status("vm2", "ErrorUnschedulable", "Starting")
    await world.delete_vm("vm1")
    await world.until(claims, CLAIM, lambda one: one is None)
    device = await world.client.get(served(PCIDevice), CLAIM)
    assert device.status.kernel_driver_in_use == "igb"
    assert not node.holders()


@pytest.mark.slow
async def test_a_vgpu_in_use_is_not_taken_away(world: World, node: SimNode) -> None:
    await world.make_vm("vm1", gpus=[VGPU, VGPU])
    await world.running("vm1")
    await world.cluster.disable(VGPUS[0])

    def waits(vgpu: Any) -> bool:
        ready = find_condition(vgpu.status.conditions, "Ready")
        return (
            ready.observed_generation == vgpu.metadata.generation
            and ready.status == "False"
            and "vm1" in ready.message
        )

    vgpu = await world.until(served(VGPUDevice), VGPUS[0], waits)
    assert vgpu.status.configure_vgpu_type_name == PROFILE
    assert len(await world.opened("vm1")) == 2
    await world.delete_vm("vm1")
    await world.until(
        served(VGPUDevice), VGPUS[0], lambda one: one.status.configure_vgpu_type_name == ""
    )
    await world.allocatable("node1", VGPU, 1)


@pytest.mark.slow
async def test_gpu_goes_to_a_vm_with_its_audio_function(world: World) -> None:
    node = await world.add("node1", "workstation")
    for function in ("node1-000008000", "node1-000008001"):
        await world.make_claim(function)
    await world.allocatable("node1", GPU, 1)
    await world.allocatable("node1", AUDIO, 1)
    await world.make_vm("vm1", host_devices=[GPU, AUDIO])
    await world.running("vm1")
    assert await world.opened("vm1") == ["0000:08:00.0", "0000:08:00.1"]
    # A device whose pod goes before the agent has learnt of it is kept for it for half a minute.
    await has(world, PCIDeviceClaim, "node1-000008000", "vm1")
    await world.delete_vm("vm1")

    # Half of a group is enough to keep the other half from everybody else.
    await world.allocatable("node1", AUDIO, 1)
    await world.make_vm("vm2", host_devices=[GPU])
    await world.running("vm2")
    await world.allocatable("node1", AUDIO, 0)
    await world.make_vm("vm3", host_devices=[AUDIO])
    await world.unschedulable("vm3")
    await has(world, PCIDeviceClaim, "node1-000008000", "vm2")
    await world.delete_vm("vm2")
    await world.running("vm3")
    await has(world, PCIDeviceClaim, "node1-000008001", "vm3")
    await world.delete_vm("vm3")
    for function in ("node1-000008000", "node1-000008001"):
        await world.release(function)
    assert node.host.readlink("/sys/bus/pci/devices/0000:08:00.1/driver").endswith("/snd_hda_intel")


@pytest.mark.slow
async def test_function_is_pulled_out_and_comes_back(world: World, node: SimNode) -> None:
    blocks = node.host.unplug(FUNCTION)
    await world.allocatable("node1", NIC, 0)
    await world.make_vm("vm1", host_devices=[NIC])
    await world.not_permitted("vm1", NIC)
    node.host.plug(blocks)
    await world.running("vm1")
    assert await world.opened("vm1") == ["0000:04:00.1"]


@pytest.mark.slow
async def test_function_is_pulled_out_of_a_running_vm(world: World, node: SimNode) -> None:
    await world.make_vm("vm1", host_devices=[NIC], gpus=[VGPU])
    await world.running("vm1")
    remove = f"{FUNCTION}/remove"
    pulled = asyncio.create_task(asyncio.to_thread(node.host.write, remove, "1"))
    async with asyncio.timeout(60):
        # The kernel waits until the VM closes it: there is no answer yet.
        while remove not in node.host.waiting:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)
    await world.shut_down("vm1", 1)
    await pulled
    await world.not_permitted("vm1", NIC)
    await world.delete_vm("vm1")
    assert not node.holders()
    for name in VGPUS:
        await has(world, VGPUDevice, name, "")
