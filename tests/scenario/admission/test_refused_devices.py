"""GPUs, their vGPUs, network cards and GPU instances: what is refused, as a person sees it."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import MigConfiguration, PCIDeviceClaim, SRIOVNetworkDevice, VGPUDevice
from laneway.kube.resource import served
from support.kubectl import Kubectl
from support.worlds import World

GPU, VGPU = "node1-000008000", "node1-000008004"
PROFILE = "NVIDIA A2-8Q"
CARD = "node1-eno2"
A100 = "node1-000017000"


@pytest.mark.slow
async def test_a_gpu_and_its_vgpus(world: World, admin: Kubectl, make_vm: Any) -> None:
    await world.add("node1", "a2")
    said = await admin.not_patched("vgpudevice", VGPU, enabled=True)
    assert f"VGPUTypeName cannot be empty for vGPU device {VGPU}" in said
    said = await admin.not_patched("vgpudevice", VGPU, enabled=True, vGPUTypeName="NVIDIA A2-3Q")
    assert f"VGPUTypeName NVIDIA A2-3Q is not a valid profile for vGPU device {VGPU}" in said
    said = await admin.refused("delete", "sriovgpudevice", GPU)
    assert f"disable gpuDevice {GPU} before deletion" in said

    await admin.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName=PROFILE)
    advertised = "nvidia.com/NVIDIA_A2-8Q"
    await world.allocatable("node1", advertised, 1)
    said = await admin.not_patched("sriovgpudevice", GPU, enabled=False)
    assert VGPU in said

    await admin.apply(make_vm("desk", "Always", gpus=[("screen", advertised)]))
    await world.running("desk")
    in_use = f"device {VGPU} is in use with VM default/desk"
    await world.until(served(VGPUDevice), VGPU, lambda one: one.status.allocation is not None)
    assert in_use in await admin.not_patched("vgpudevice", VGPU, enabled=False)
    assert in_use in await admin.refused("delete", "vgpudevice", VGPU)
    assert in_use in await admin.not_patched("sriovgpudevice", GPU, enabled=False)
    # Its last device is kept for a VM that is stopped, too.
    await world.stop_vm("desk")
    assert in_use in await admin.not_patched("vgpudevice", VGPU, enabled=False)
    await world.delete_vm("desk")
    await admin.patch("vgpudevice", VGPU, enabled=False)


@pytest.mark.slow
async def test_the_claim_of_a_vgpu_is_laneways(world: World, admin: Kubectl) -> None:
    await world.add("node1", "a2-vfio")
    await admin.patch("vgpudevice", VGPU, enabled=True, vGPUTypeName=PROFILE)
    await world.allocatable("node1", "nvidia.com/NVIDIA_A2-8Q", 1)
    said = await admin.refused("delete", "pcideviceclaim", VGPU)
    assert f"pcideviceclaim {VGPU} cannot be deleted, it is owned by VGPUDevice {VGPU}" in said
    # The agent may: it follows from the desired state.
    await admin.patch("vgpudevice", VGPU, enabled=False)
    await world.until(served(PCIDeviceClaim), VGPU, lambda one: one is None)


@pytest.mark.slow
async def test_virtual_functions_of_a_network_card(
    world: World, admin: Kubectl, make_claim: Any
) -> None:
    await world.add("node1", "a2")
    said = await admin.not_patched("sriovnetworkdevice", CARD, numVFs=70)
    assert CARD in said
    assert "7" in said
    await admin.patch("sriovnetworkdevice", CARD, numVFs=2)
    card = await world.until(
        served(SRIOVNetworkDevice), CARD, lambda one: len(one.status.vf_pci_devices) == 2
    )
    function, address = card.status.vf_pci_devices[0], card.status.vf_addresses[0]
    await world.until(served(SRIOVNetworkDevice), CARD, lambda one: one is not None)
    await admin.apply(make_claim(function, address))
    related = f"pcideviceclaims {function} related to sriovnetworkdevice {CARD} in use"
    assert related in await admin.not_patched("sriovnetworkdevice", CARD, numVFs=0)
    assert related in await admin.refused("delete", "sriovnetworkdevice", CARD)
    await world.release(function)
    await admin.patch("sriovnetworkdevice", CARD, numVFs=0)


@pytest.mark.slow
async def test_gpu_instances(world: World, admin: Kubectl) -> None:
    await world.add("node1", "a100")
    await admin.patch("sriovgpudevice", A100, mode="MIGBacked")
    await world.until(
        served(MigConfiguration),
        A100,
        lambda one: one is not None and bool(one.status.profile_status),
    )

    def ask(count: int, name: str = "MIG 1g.5gb", **spec: Any) -> dict[str, Any]:
        return {"profileSpec": [{"name": name, "requested": count}], **spec}

    said = await admin.not_patched("migconfiguration", A100, **ask(8))
    assert f"MIGConfiguration {A100} has more than 7 instances defined: 8" in said
    said = await admin.not_patched("migconfiguration", A100, **ask(3, "MIG 3g.20gb", enabled=True))
    assert "requested count 3 of profile MIG 3g.20gb is more than the available count 2" in said

    await admin.patch("migconfiguration", A100, **ask(1, enabled=True))
    await world.until(served(MigConfiguration), A100, lambda one: one.status.status == "synced")
    [vgpu, *_] = sorted(
        one["metadata"]["name"]
        for one in (await admin.get("vgpudevices"))["items"]
        if one["metadata"]["name"].startswith("node1-00001700")
    )
    await world.until(
        served(VGPUDevice), vgpu, lambda one: "GRID A100-1-5C" in one.status.available_types
    )
    await admin.patch("vgpudevice", vgpu, enabled=True, vGPUTypeName="GRID A100-1-5C")
    said = await admin.not_patched("migconfiguration", A100, enabled=False)
    assert f"cannot disable MIGConfiguration {A100} as vGPU {vgpu} is enabled" in said
