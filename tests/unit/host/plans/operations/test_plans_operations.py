"""What every kind of step does about devices that are gone, and about names that are none."""

from __future__ import annotations

import errno
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
from laneway.host.console import read_consoles
from laneway.host.hardware import Hardware
from laneway.host.plans.operations import operation_of
from laneway.host.plans.operations.operation import Limits, State
from laneway.host.scan import scan
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of

NOWHERE = PciAddress.parse("0000:ee:00.0")
GPU = PciAddress.parse("0000:08:00.0")
VF = PciAddress.parse("0000:08:00.4")
UUID = "5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a09"
ABOUT_GPUS = {
    SetMigMode,
    SetMixedSize,
    CreateGpuInstance,
    DestroyGpuInstance,
    CreateComputeInstance,
    DestroyComputeInstance,
}
"""Steps whose state the driver's program tells, and that fail with it."""

GONE: list[Step] = [
    Unbind(NOWHERE, "nvidia"),
    OverrideDriver(NOWHERE, "vfio-pci", ""),
    Probe(NOWHERE, "vfio-pci"),
    Probe(NOWHERE, ""),
    ResetFunction(NOWHERE),
    SetConsole(7, "(M) frame buffer device", attached=False),
    SetFramebuffer("efi-framebuffer.7", "efi-framebuffer", bound=False),
    SetAutoprobe(NOWHERE, enabled=False),
    SetVfCount(NOWHERE, 4, 0),
    SwitchGpuVfs(NOWHERE, enabled=True, count=16),
    CreateMdev(NOWHERE, "nvidia-742", "NVIDIA A2-1B", UUID),
    SetVgpuType(NOWHERE, "742", "0", "NVIDIA A2-1B"),
    SetVgpuParameters(NOWHERE, "", "frame_rate_limiter=0", ""),
    SetVgpuParameters(NOWHERE, UUID, "frame_rate_limiter=0", ""),
    SetNodeOwner("7-7", 7, 7, 107, 107, 0, 0),
]


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("a2"), "node1"), tmp_path)


@pytest.mark.parametrize("step", GONE)
async def test_a_device_that_is_gone_is_neither_before_nor_after(
    hardware: Hardware, step: Step
) -> None:
    seen = await operation_of(step).state(hardware, step)

    assert seen.state is State.OTHER
    assert "does not exist" in seen.value


def test_every_other_step_knows_no_gone_device() -> None:
    # A mediated device that is gone is removed; a module is loaded or not; a file is no device.
    files = {SetBootArguments, WriteConfiguration}
    others = {RemoveMdev, LoadModule} | files
    assert set(get_args(Step)) - set(map(type, GONE)) == ABOUT_GPUS | others


@pytest.mark.parametrize(
    "step",
    [
        Unbind(VF, "../../../../../proc/sysrq-trigger"),
        Probe(VF, ".."),
        Probe(VF, "a/b"),
        SetFramebuffer("efi-framebuffer.0", "..", bound=True),
        CreateMdev(VF, "../../remove", "", UUID),
        CreateMdev(VF, "nvidia-742", "", "../1"),
        RemoveMdev(VF, "nvidia-742", "", ".."),
        SetVgpuParameters(VF, "../..", "a=1", ""),
        LoadModule("--remove"),
        LoadModule("../../x"),
        LoadModule("vfio-pci --force-vermagic"),
        LoadModule("vfio-pci\n"),
        LoadModule(""),
    ],
)
async def test_what_is_no_name_reaches_neither_a_path_nor_a_program(
    hardware: Hardware, step: Step
) -> None:
    with pytest.raises(OSError, match=r"cannot be a part of a path|not the name of") as caught:
        await operation_of(step).perform(hardware, step, Limits())
    assert caught.value.errno == errno.EINVAL
    assert hardware.host.faults.count == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "step",
    [
        SetBootArguments("grub", "/etc/passwd", None, "x"),
        SetBootArguments("grub", "/etc/default/grub.d/../../passwd", None, "x"),
        SetBootArguments("grub", "/etc/default/grub", None, "x"),
        SetBootArguments("grub2", "/boot/grub2/grub.cfg", None, "x"),
        SetBootArguments("bls", "/boot/loader/entries/../../grub2/grub.cfg", None, "x"),
        SetBootArguments("systemd-boot", "/boot/loader/entries/.hidden.conf", None, "x"),
        SetBootArguments("elemental", "/oem/90_custom.yaml", None, "x"),
        SetBootArguments("unknown", "/etc/default/grub.d/90-laneway.cfg", None, "x"),
        WriteConfiguration("/etc/modules-load.d/other.conf", None, "x"),
        WriteConfiguration("/etc/default/grub.d/90-laneway.cfg", None, "x"),
    ],
)
async def test_no_file_but_those_of_a_table_is_written(hardware: Hardware, step: Step) -> None:
    """A plan is read from a file, too."""
    for action in (
        operation_of(step).perform(hardware, step, Limits()),
        operation_of(step).state(hardware, step),
    ):
        with pytest.raises(OSError, match="is not a file that Laneway writes") as caught:
            await action
        assert caught.value.errno == errno.EPERM
    assert hardware.host.faults.count == 0  # type: ignore[attr-defined]


async def test_what_has_another_name_or_number_now_is_another_device(tmp_path: Path) -> None:
    hardware = hardware_of(build(parse_spec("workstation"), "node1"), tmp_path)
    [console] = [one for one in read_consoles(hardware.host) if one.name.startswith("(M)")]
    device = scan(hardware.host).usb[0]

    def renamed(name: str) -> SetConsole:
        return SetConsole(console.number, name, attached=not console.attached)

    def numbered(number: int) -> SetNodeOwner:
        return SetNodeOwner(device.port, device.bus, number, 107, 107, 0, 0)

    for step, state in (
        (renamed(console.name), State.BEFORE),
        (renamed("(M) another driver"), State.OTHER),
        (numbered(device.number), State.BEFORE),
        (numbered(device.number + 1), State.OTHER),
    ):
        assert (await operation_of(step).state(hardware, step)).state is state


async def test_a_type_that_is_not_known_yet_is_reported_by_its_profile(tmp_path: Path) -> None:
    hardware = hardware_of(build(parse_spec("l40s"), "node1"), tmp_path)
    vgpu = scan(hardware.host).vgpus[0]
    made, other = vgpu.creatable[:2]

    def configured(profile: str) -> SetVgpuType:
        return SetVgpuType(vgpu.address, "", "0", profile)

    removed = SetVgpuType(vgpu.address, "0", "", made.name)

    async def states(*steps: SetVgpuType) -> list[State]:
        return [(await operation_of(step).state(hardware, step)).state for step in steps]

    assert await states(configured(made.name), removed) == [State.BEFORE, State.AFTER]
    path = f"/sys/bus/pci/devices/{vgpu.address}/nvidia/current_vgpu_type"
    hardware.host.write(path, made.id)
    assert await states(configured(made.name), configured(other.name), removed) == [
        State.AFTER,
        State.OTHER,
        State.BEFORE,
    ]


async def test_the_id_of_a_profile_that_is_gone_is_not_written_for_another(
    hardware: Hardware,
) -> None:
    kinds = next(vgpu for vgpu in scan(hardware.host).vgpus if vgpu.address == VF).creatable
    step = CreateMdev(VF, kinds[0].id, kinds[1].name, UUID)
    resolved = await operation_of(step).resolve(hardware, step)
    assert resolved == CreateMdev(VF, kinds[1].id, kinds[1].name, UUID)

    gone = CreateMdev(VF, kinds[0].id, "NVIDIA A2-99Q", UUID)
    with pytest.raises(OSError, match="offers no NVIDIA A2-99Q any more"):
        await operation_of(gone).resolve(hardware, gone)
