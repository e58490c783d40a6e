"""Who is asked for right before a step, whatever a plan was made from."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    OverrideDriver,
    Probe,
    RemoveMdev,
    SetMigMode,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
)
from laneway.host.hardware import Hardware
from laneway.host.plans.guard import users_hurt
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of

GPU = PciAddress.parse("0000:08:00.0")
VF = PciAddress.parse("0000:08:00.5")
OTHER = PciAddress.parse("0000:08:00.6")
UUID = "5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a09"


@pytest.fixture
def host() -> SimulatedHost:
    """A GPU with a vGPU on one of its VFs, which a VM has."""
    host = build(parse_spec("a2"), "node1")
    kinds = next(vgpu for vgpu in scan(host).vgpus if vgpu.address == VF).creatable
    types = f"/sys/bus/pci/devices/{VF}/mdev_supported_types"
    host.write(f"{types}/{kinds[0].id}/create", UUID)
    host.hold(f"/sys/bus/mdev/devices/{UUID}")
    return host


@pytest.fixture
def hardware(host: SimulatedHost, tmp_path: Path) -> Hardware:
    return hardware_of(host, tmp_path)


@pytest.mark.parametrize(
    "step",
    [
        Unbind(VF, "nvidia"),
        RemoveMdev(VF, "nvidia-742", "NVIDIA A2-1B", UUID),
        SetVgpuType(VF, "0", "742", "NVIDIA A2-1B"),
        SetVgpuParameters(VF, UUID, "frame_rate_limiter=0", ""),
        SetVfCount(GPU, 0, 16),
        SwitchGpuVfs(GPU, enabled=False, count=16),
        SetMigMode(GPU, enabled=True),
        DestroyGpuInstance(VF, "1g.5gb", 19, 0),
        DestroyComputeInstance(VF, 0),
    ],
)
async def test_a_step_that_takes_a_vm_its_device_is_told_the_vm(
    hardware: Hardware, step: Step
) -> None:
    held = await users_hurt(hardware, step)

    assert held is not None
    assert "qemu-system-x86" in held.holders[0]
    assert held.device == str(step.function)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "step",
    [
        Unbind(OTHER, "nvidia"),
        Probe(VF, "nvidia"),
        OverrideDriver(VF, "vfio-pci", ""),
        SetVfCount(GPU, 16, 0),
        SwitchGpuVfs(GPU, enabled=True, count=16),
        CreateMdev(OTHER, "nvidia-742", "NVIDIA A2-1B", UUID),
        SetVfCount(PciAddress.parse("0000:ff:00.0"), 0, 4),
    ],
)
async def test_a_step_that_takes_nobody_anything_may_go_on(hardware: Hardware, step: Step) -> None:
    assert await users_hurt(hardware, step) is None
