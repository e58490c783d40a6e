"""Who is asked right before a step, whatever a plan was made from."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    LoadModule,
    OverrideDriver,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetAutoprobe,
    SetBootArguments,
    SetConsole,
    SetFramebuffer,
    SetMigMode,
    SetMixedSize,
    SetNodeOwner,
    SetVfCount,
    SetVgpuParameters,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
    Unbind,
    WriteConfiguration,
)
from laneway.host.hardware import Hardware
from laneway.host.plans.guard import affected_holders
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of

GPU = PciAddress.parse("0000:08:00.0")
VF = PciAddress.parse("0000:08:00.5")
OTHER = PciAddress.parse("0000:08:00.6")
USB_CLAIM = SetNodeOwner("1-3", 1, 4, 107, 107, 0, 0)
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


TAKE: tuple[Step, ...] = (
    Unbind(VF, "nvidia"),
    ResetFunction(VF),
    RemoveMdev(VF, "nvidia-742", "NVIDIA A2-1B", UUID),
    SetVgpuType(VF, "0", "742", "NVIDIA A2-1B"),
    SetVgpuParameters(VF, UUID, "frame_rate_limiter=0", ""),
    SetVfCount(GPU, 0, 16),
    SwitchGpuVfs(GPU, enabled=False, count=16),
    SwitchGpuVfs(GPU, enabled=True, count=16),
    SetMigMode(GPU, enabled=True),
    DestroyGpuInstance(VF, "1g.5gb", 19, 0),
    DestroyComputeInstance(VF, 0),
)
"""Steps that cost the VM its vGPU."""

SPARE: dict[Step, str] = {
    Unbind(OTHER, "nvidia"): "nobody has that function",
    Probe(VF, "nvidia"): "a function without a driver has no user",
    OverrideDriver(VF, "vfio-pci", ""): "only says what the next driver is",
    SetAutoprobe(GPU, enabled=False): "only says what new functions get",
    SetVfCount(GPU, 16, 0): "the node does not use the card itself",
    CreateMdev(OTHER, "nvidia-742", "NVIDIA A2-1B", UUID): "adds a vGPU",
    SetVgpuType(OTHER, "742", "0", "NVIDIA A2-1B"): "adds a vGPU",
    SetVfCount(PciAddress.parse("0000:ff:00.0"), 0, 4): "there is no such card",
    CreateGpuInstance(GPU, "1g.5gb", 19, 0): "adds an instance on free slices",
    CreateComputeInstance(GPU, 0): "adds an instance on free slices",
    SetMixedSize(GPU, enabled=True): "the driver refuses it beside any vGPU",
    LoadModule("vfio-pci"): "adds a module",
    SetConsole(1, "(M) frame buffer device", attached=False): "the kernel alone draws on it",
    SetFramebuffer("efi-framebuffer.0", "efi-framebuffer", bound=False): "as the console",
    SetBootArguments("grub", "/etc/default/grub.d/90-laneway.cfg", None, "x"): "read at boot",
    WriteConfiguration("/etc/modules-load.d/laneway.conf", None, "x"): "read at boot",
    SetNodeOwner("3-1", 3, 2, 107, 107, 0, 0): "there is no such device",
    WriteConfiguration(
        "/etc/modules-load.d/laneway.conf", None, "vfio\n"
    ): "counts at the next boot",
    SetBootArguments("grub", "/etc/default/grub.d/90-laneway.cfg", None, ""): "as the modules",
}
"""Steps that cost the VM nothing, and why."""


def test_every_kind_of_step_is_decided_here_and_tried() -> None:
    """One that takes something is tried above, and one that never does has its reason."""
    assert {type(step) for step in (*TAKE, *SPARE, USB_CLAIM)} == set(get_args(Step))


@pytest.mark.parametrize("step", TAKE)
async def test_a_step_that_takes_a_vm_its_device_names_the_vm(
    hardware: Hardware, step: Step
) -> None:
    held = await affected_holders(hardware, step)

    assert held is not None
    assert "qemu-system-x86" in held.holders[0]
    assert held.device == str(step.function)  # type: ignore[union-attr]


@pytest.mark.parametrize("step", SPARE)
async def test_a_step_that_affects_no_holder_may_go_on(hardware: Hardware, step: Step) -> None:
    assert await affected_holders(hardware, step) is None


async def test_a_usb_device_is_not_given_to_a_machine_while_a_program_has_it(
    host: SimulatedHost, hardware: Hardware
) -> None:
    assert await affected_holders(hardware, USB_CLAIM) is None
    host.hold("/dev/bus/usb/001/004", "backup")
    held = await affected_holders(hardware, USB_CLAIM)
    assert held is not None
    assert "backup" in held.holders[0]


async def test_a_card_that_the_node_uses_keeps_its_number_of_functions(tmp_path: Path) -> None:
    host = build(parse_spec("plain"), "node1")
    hardware = hardware_of(host, tmp_path)
    card = PciAddress.parse("0000:17:00.0")
    host.network(lambda net: net.add("vlan1-bo", "bond"))
    host.network(lambda net: net.stack("ens1f0", "vlan1-bo"))
    for step in (SetVfCount(card, 4, 0), SetVfCount(card, 0, 4)):
        held = await affected_holders(hardware, step)
        assert held is not None
        assert held.holders == ("its interface ens1f0 is part of bond vlan1-bo",)
    # What it had before, after a boot or when a plan is undone.
    assert await affected_holders(hardware, SetVfCount(card, 4, 0, used=True)) is None
