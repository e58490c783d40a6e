"""Given a vGPU that is desired, pods get it; and while one has it, it is not taken away."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice, find_condition
from laneway.controllers.device_plugin import allocations
from laneway.core import keys
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.pods import PODS
from laneway.kube.resource import served
from laneway.kubelet import recent
from laneway.sim.kubelet.pods import PodRequest
from support.examples import first

Q4 = "NVIDIA A2-4Q"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"
FIRST, SECOND = "0000:08:00.4", "0000:08:00.5"
NAMES = {FIRST: "node1-000008004", SECOND: "node1-000008005"}
OVERRIDE = "pcidevice.harvesterhci.io/override-resource-name"


@pytest.fixture(params=first("a2", "a2-vfio"))
def framework(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def make(cluster: Any, framework: str, address: str) -> None:
    """A vGPU is desired, and claimed where the contract has claims for vGPUs."""
    await cluster.ask(NAMES[address], Q4)
    await cluster.answer(NAMES[address], "Configured")
    if framework == "a2-vfio":
        claim = {
            "metadata": {"name": NAMES[address], "annotations": {keys.ANNOTATION_SKIP_BINDING: ""}},
            "spec": {"address": address, "nodeName": "node1", "userName": "admin"},
        }
        body = {"apiVersion": "devices.harvesterhci.io/v1beta1", "kind": "PCIDeviceClaim"} | claim
        with contextlib.suppress(AlreadyExistsError):
            await cluster.client.create(served(PCIDeviceClaim), body)


def reported(grant: Any, framework: str) -> list[str]:
    prefix = "PCI" if framework == "a2-vfio" else "MDEV_PCI"
    return grant.envs[f"{prefix}_RESOURCE_NVIDIA_COM_NVIDIA_A2-4Q"].split(",")


async def test_a_configured_vgpu_is_allocated_to_a_pod(cluster, node, simulated, framework) -> None:
    await node.agent(simulated(framework, "node1"))
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    vgpu = await node.said(NAMES[FIRST], "Advertised", "Advertised")
    assert find_condition(vgpu.status.conditions, "Permitted").reason == "NoKubeVirt"
    assert vgpu.status.resource_name == RESOURCE

    _, granted = await node.pod("virt-launcher-vm1-abc", vm="vm1", **{RESOURCE: 1})
    expected = FIRST if framework == "a2-vfio" else vgpu.status.uuid
    assert reported(granted["compute"], framework) == [expected]
    held = await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    has = held.status.allocation
    assert (has.namespace, has.pod, has.virtual_machine) == (
        "default",
        "virt-launcher-vm1-abc",
        "vm1",
    )


async def test_what_a_pod_has_is_not_taken_away(cluster, node, simulated, framework) -> None:
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("virt-launcher-vm1-abc", vm="vm1", **{RESOURCE: 1})

    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert "default/vm1 (pod default/virt-launcher-vm1-abc)" in cluster.message(refused)
    assert cluster.carried(host) == {FIRST: Q4}
    await node.allocatable(RESOURCE, 0)

    await node.end("virt-launcher-vm1-abc", uid)
    await cluster.answer(NAMES[FIRST], "NotConfigured")
    assert cluster.carried(host) == {}
    gone = await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation is None)
    assert gone.status.resource_name == ""


@pytest.mark.slow
async def test_another_profile_waits_for_the_pod(cluster, node, simulated, framework) -> None:
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("launcher", **{RESOURCE: 1})
    await cluster.ask(NAMES[FIRST], "NVIDIA A2-8Q")
    refused = await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert "allocated to pod default/launcher" in cluster.message(refused).lower()
    await node.end("launcher", uid)
    await cluster.answer(NAMES[FIRST], "Configured")
    assert cluster.carried(host) == {FIRST: "NVIDIA A2-8Q"}
    await node.allocatable("nvidia.com/NVIDIA_A2-8Q", 1)


@pytest.mark.slow
async def test_a_kubelet_that_does_not_tell_keeps_vgpus_where_they_are(
    cluster, node, simulated, framework
) -> None:
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    await node.kubelet.stop()
    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "HoldersUnknown")
    assert "kubelet" in cluster.message(refused)
    assert cluster.carried(host) == {FIRST: Q4}
    await node.kubelet.start()
    # Anything that changes about the card has it tried again; here a user requests the vGPU.
    await cluster.ask(NAMES[FIRST], Q4)
    await node.allocatable(RESOURCE, 1)


@pytest.mark.slow
async def test_an_agent_that_was_killed_offers_the_same_again(
    cluster, node, simulated, framework
) -> None:
    host = simulated(framework, "node1")
    agent = await node.agent(host)
    for address in (FIRST, SECOND):
        await make(cluster, framework, address)
    await node.allocatable(RESOURCE, 2)
    await node.pod("launcher", **{RESOURCE: 1})
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    had = await node.kubelet_says()
    await cluster.quiet(agent)
    await cluster.stop_agent(agent)
    written = cluster.metric("laneway_api_writes_total")
    again = await node.agent(host)
    await node.allocatable(RESOURCE, 2)
    await cluster.quiet(again)
    assert cluster.metric("laneway_api_writes_total") == written
    assert await node.kubelet_says() == had
    _, granted = await node.pod("another", **{RESOURCE: 1})
    assert not set(reported(granted["compute"], framework)) & {one for _, one in had}


async def test_a_faulty_card_is_never_allocated(
    cluster, node, simulated, framework, monkeypatch
) -> None:
    host = simulated(framework, "node1")
    agent = await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    host.kernel_message(f"NVRM: Xid (PCI:{FIRST[:10]}): 79, pid=4711, GPU has fallen off the bus.")
    await node.allocatable(RESOURCE, 0)
    await cluster.stop_agent(agent)
    at_once = host.kernel_messages

    @contextlib.asynccontextmanager
    async def later() -> AsyncIterator[AsyncIterator[str]]:
        await asyncio.sleep(0.3)  # a kernel's log takes a moment to be read
        async with at_once() as messages:
            yield messages

    monkeypatch.setattr(host, "kernel_messages", later)
    counts = [0]
    node.kubelet.subscribe(lambda: counts.append(node.kubelet.allocatable.get(RESOURCE, 0)))
    await node.agent(host)
    assert node.kubelet.capacity[RESOURCE] == 1
    assert max(counts) == 0


@pytest.mark.slow
async def test_a_restarted_kubelet_gets_the_list_again(cluster, node, simulated, framework) -> None:
    await node.agent(simulated(framework, "node1"))
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    await node.pod("launcher", **{RESOURCE: 1})
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    await node.kubelet.stop()
    await node.kubelet.start()
    await node.allocatable(RESOURCE, 1)
    held = await cluster.get(VGPUDevice, NAMES[FIRST])
    assert held.status.allocation.pod == "launcher"


@pytest.mark.slow
async def test_a_kubelet_that_knows_no_pods_yet_takes_nothing_from_one_that_runs(
    cluster, node, simulated, framework
) -> None:
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("virt-launcher-vm1-abc", vm="vm1", **{RESOURCE: 1})
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    await node.kubelet.stop()
    node.kubelet.faults.unreported_pods = 2
    await node.kubelet.start()
    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert "default/vm1 (pod default/virt-launcher-vm1-abc)" in cluster.message(refused)
    assert cluster.carried(host) == {FIRST: Q4}
    # What has ended is free, whichever pods are still unknown.
    node.kubelet.faults.unreported_pods = 1
    await node.end("virt-launcher-vm1-abc", uid)
    await cluster.answer(NAMES[FIRST], "NotConfigured")


async def test_a_deleted_pod_is_told_with_its_vm_until_the_kubelet_has_cleaned_up(
    cluster, node, simulated
) -> None:
    await node.agent(simulated("a2", "node1"))
    await make(cluster, "a2", FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("virt-launcher-vm1-abc", vm="vm1", **{RESOURCE: 1})
    await cluster.until(
        VGPUDevice,
        NAMES[FIRST],
        lambda obj: obj.status.allocation and obj.status.allocation.virtual_machine,
    )
    await cluster.client.delete(PODS, "virt-launcher-vm1-abc", "default", grace_seconds=0)
    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert refused.status.allocation.virtual_machine == "vm1"
    node.kubelet.remove(uid)
    await cluster.answer(NAMES[FIRST], "NotConfigured")


@pytest.mark.slow
async def test_a_pod_of_the_same_name_has_nothing_of_the_one_before(
    cluster, node, simulated, framework
) -> None:
    await node.agent(simulated(framework, "node1"))
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("desk", vm="desk", **{RESOURCE: 1})
    await cluster.until(
        VGPUDevice,
        NAMES[FIRST],
        lambda obj: obj.status.allocation and obj.status.allocation.virtual_machine,
    )
    await cluster.client.delete(PODS, "desk", "default", grace_seconds=0)
    await node.pod("desk")
    node.kubelet.remove(uid)
    await cluster.disable(NAMES[FIRST])
    await cluster.answer(NAMES[FIRST], "NotConfigured")


@pytest.mark.slow
async def test_the_first_answer_is_doubted_while_a_running_pod_lacks_its_devices(
    cluster, node, simulated, framework, monkeypatch
) -> None:
    monkeypatch.setattr(allocations, "SLOW_SECONDS", 3600.0)
    host = simulated(framework, "node1")
    agent = await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    await node.pod("launcher", **{RESOURCE: 1})
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    await cluster.stop_agent(agent)
    node.kubelet.faults.unreported_pods = 1_000_000
    await node.agent(host)
    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "HoldersUnknown")
    assert "has not listed all running pods" in cluster.message(refused)
    node.kubelet.faults.unreported_pods = 0
    await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert cluster.carried(host) == {FIRST: Q4}


@pytest.mark.slow
@pytest.mark.parametrize("sidecar", first(False, True))
async def test_a_pod_that_came_again_under_its_name_keeps_what_it_got(
    cluster, node, simulated, framework, sidecar
) -> None:
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    uid, _ = await node.pod("desk", sidecar=sidecar, **{RESOURCE: 1})
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    node.kubelet.faults.pod_resources = "refuse"  # So that the change is never seen.
    await cluster.client.delete(PODS, "desk", "default", grace_seconds=0)
    node.kubelet.remove(uid)
    await node.pod("desk", sidecar=sidecar, **{RESOURCE: 1})
    node.kubelet.faults.pod_resources = "answer"
    # A report of the machine's name has seen that the pod runs, and asked the kubelet since.
    labels = {"kubevirt.io/created-by": "uid-of-desk"}
    metadata = {"labels": labels, "annotations": {"kubevirt.io/domain": "desk"}}
    await cluster.client.patch(PODS, "desk", {"metadata": metadata}, "default")
    await cluster.disable(NAMES[FIRST])
    has = "default/desk (pod default/desk)"
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: has in cluster.message(obj))
    await cluster.ask(NAMES[FIRST], Q4)
    await cluster.answer(NAMES[FIRST], "Configured")
    await node.kubelet.stop()
    node.kubelet.faults.unreported_pods = 1_000_000
    await node.kubelet.start()
    await cluster.disable(NAMES[FIRST])
    refused = await cluster.answer(NAMES[FIRST], "DeviceAllocated")
    assert has in cluster.message(refused)
    assert cluster.carried(host) == {FIRST: Q4}


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
async def test_a_pod_keeps_nothing_that_it_never_requested(
    cluster, node, simulated, framework, monkeypatch
) -> None:
    # For so long a device may be a pod's that the kubelet does not name yet.
    monkeypatch.setattr(recent, "SECONDS", 1.0)
    host = simulated(framework, "node1")
    await node.agent(host)
    await make(cluster, framework, FIRST)
    await node.allocatable(RESOURCE, 1)
    # A pod that only the kubelet knows, such as one deleted by force, and another one of its name.
    request = PodRequest(
        uid="gone", namespace="default", name="desk", containers={"compute": {RESOURCE: 1}}
    )
    await node.kubelet.admit(request)
    await cluster.until(VGPUDevice, NAMES[FIRST], lambda obj: obj.status.allocation)
    await node.pod("desk", vm="desk")
    node.kubelet.remove("gone")
    await cluster.disable(NAMES[FIRST])
    await cluster.answer(NAMES[FIRST], "NotConfigured")


@pytest.mark.slow
async def test_without_a_kubelet_the_object_says_so(cluster, simulated, framework) -> None:
    await cluster.start_agent("node1", simulated(framework, "node1"))
    await make(cluster, framework, FIRST)

    def says(obj: Any) -> bool:
        found = find_condition(obj.status.conditions, "Advertised")
        return found is not None and found.reason == "NoKubelet"

    vgpu = await cluster.until(VGPUDevice, NAMES[FIRST], says)
    assert find_condition(vgpu.status.conditions, "Ready").status == "True"
    await cluster.disable(NAMES[FIRST])
    await cluster.answer(NAMES[FIRST], "NotConfigured")


@pytest.mark.slow
async def test_the_function_of_a_vgpu_bears_its_name(cluster, node, simulated) -> None:
    await node.agent(simulated("a2-vfio", "node1"))
    before = await cluster.get(PCIDevice, NAMES[FIRST])
    await make(cluster, "a2-vfio", FIRST)
    named = await cluster.until(
        PCIDevice, NAMES[FIRST], lambda obj: obj.status.resource_name == RESOURCE
    )
    assert named.metadata.annotations[OVERRIDE] == RESOURCE
    await cluster.disable(NAMES[FIRST])
    after = await cluster.until(
        PCIDevice,
        NAMES[FIRST],
        lambda obj: obj.status.resource_name == before.status.resource_name,
    )
    assert OVERRIDE not in after.metadata.annotations
