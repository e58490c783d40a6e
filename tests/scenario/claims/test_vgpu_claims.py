"""vGPUs that are PCI functions have claims, which live and die with the spec for the vGPU."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice, find_condition
from laneway.core import keys
from laneway.kube.resource import served

PROFILE, OTHER = "NVIDIA L40S-24Q", "NVIDIA L40S-12Q"


def bound(claim: Any) -> bool:
    found = find_condition(claim.status.conditions, "Bound") if claim else None
    return found is not None and found.status == "True"


async def first(cluster: Any) -> str:
    return min(await cluster.names(VGPUDevice))


async def test_a_configured_vgpu_is_claimed_as_clients_expect(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("l40s", "node1"))
    name = await first(cluster)
    await cluster.ask(name, PROFILE)
    claim = await cluster.until(PCIDeviceClaim, name, bound)
    vgpu, device = await cluster.get(VGPUDevice, name), await cluster.get(PCIDevice, name)
    owners = [(one.kind, one.name, one.uid) for one in claim.metadata.owner_references]
    assert owners == [
        ("PCIDevice", name, device.metadata.uid),
        ("VGPUDevice", name, vgpu.metadata.uid),
    ]
    spec = claim.spec
    assert (spec.address, spec.node_name, spec.user_name) == (vgpu.spec.address, "node1", "admin")
    assert keys.ANNOTATION_SKIP_BINDING in claim.metadata.annotations
    override = claim.metadata.annotations[keys.ANNOTATION_RESOURCE_NAME]
    assert override == "nvidia.com/NVIDIA_L40S-24Q"
    parent = vgpu.metadata.labels[keys.LABEL_PARENT_GPU]
    assert claim.metadata.labels[keys.LABEL_PARENT_GPU] == parent
    claim = await cluster.until(
        PCIDeviceClaim, name, lambda one: one.status.resource_name == override
    )
    assert claim.status.kernel_driver_to_unbind == "nvidia"


@pytest.mark.slow
async def test_the_claim_goes_with_the_desired_state_and_changes_with_the_profile(
    cluster: Any, simulated: Any
) -> None:
    await cluster.start_agent("node1", simulated("l40s", "node1"))
    name = await first(cluster)
    await cluster.ask(name, PROFILE)
    await cluster.until(PCIDeviceClaim, name, bound)
    await cluster.ask(name, OTHER)
    await cluster.until(
        PCIDeviceClaim,
        name,
        lambda one: bound(one) and one.status.resource_name == "nvidia.com/NVIDIA_L40S-12Q",
    )
    await cluster.disable(name)
    await cluster.until(PCIDeviceClaim, name, lambda one: one is None)
    await cluster.answer(name, "NotConfigured")


@pytest.mark.slow
async def test_a_deleted_claim_is_made_again(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("l40s", "node1"))
    name = await first(cluster)
    await cluster.ask(name, PROFILE)
    before = await cluster.until(PCIDeviceClaim, name, bound)
    await cluster.client.delete(served(PCIDeviceClaim), name)
    after = await cluster.until(
        PCIDeviceClaim, name, lambda one: bound(one) and one.metadata.uid != before.metadata.uid
    )
    assert not after.metadata.deletion_timestamp
    assert (await cluster.get(VGPUDevice, name)).status.configure_vgpu_type_name == PROFILE


@pytest.mark.slow
async def test_a_claim_made_by_hand_is_taken_over(cluster: Any, simulated: Any) -> None:
    await cluster.start_agent("node1", simulated("l40s", "node1"))
    name = await first(cluster)
    vgpu = await cluster.get(VGPUDevice, name)
    body = {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "PCIDeviceClaim",
        "metadata": {"name": name, "labels": {"mine": "yes"}},
        "spec": {"address": vgpu.spec.address, "nodeName": "node1", "userName": "kim"},
    }
    made = await cluster.client.create(served(PCIDeviceClaim), body)
    await cluster.answer(name, "DeviceUnusable", PCIDeviceClaim)
    await cluster.ask(name, PROFILE)
    claim = await cluster.until(PCIDeviceClaim, name, bound)
    assert claim.metadata.uid == made.metadata.uid
    assert claim.metadata.labels["mine"] == "yes"
    assert [one.kind for one in claim.metadata.owner_references] == ["PCIDevice", "VGPUDevice"]


async def test_a_mediated_device_needs_no_claim(cluster: Any, simulated: Any) -> None:
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    name = await first(cluster)
    await cluster.ask(name, "NVIDIA A2-4Q")
    await cluster.answer(name, "Configured")
    await cluster.quiet(agent)
    await agent.vgpu_claims.queue.join()
    assert await cluster.names(PCIDeviceClaim) == set()
