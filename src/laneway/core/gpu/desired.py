"""What a GPU's object requests as a whole, functions and mode, and the way there as one plan.

Two fields make the desired state: whether the GPU has virtual functions, and its mode, which may be
left open. A mode left open leaves MIG mode and mixed sizes as they are found; a MigConfiguration
that requests GPU instances fills it. What is lost with a boot, functions and mixed sizes, comes
back by itself; where functions or GPU instances that exist would have to go for a mode, only an
explicit desired state does it, and nothing does while the GPU carries a vGPU or anybody uses a part
of it.
"""

from __future__ import annotations

import msgspec

from laneway.core.decision import TO_BE_PLANNED, Decision, conclude
from laneway.core.gpu.modes import GpuModes, Mode, mode_named
from laneway.core.gpu.transition import transition, unserved
from laneway.core.inventory import Inventory
from laneway.core.passthrough.fitness import unfit
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Plan, Satisfied, SetMixedSize
from laneway.core.refusals import (
    DeviceNotFound,
    GpuUnreadable,
    MigConfigurationEnabled,
    MigUnsupported,
    MixedSizeUnsupported,
    ModeInvalid,
    ModeWithoutVfs,
    Refusal,
    UnmanagedMode,
    UnmanagedVfs,
)
from laneway.core.situation import Situation, glance
from laneway.core.sriov.vfs import obstacles, vf_count, vgpu_card, without_instances


class DesiredMode(msgspec.Struct, frozen=True):
    """What the object's spec requests."""

    address: PciAddress
    enabled: bool
    """Whether it is to have virtual functions."""
    mode: str
    """As the spec has it; empty: left open."""
    mig_desired: bool = False
    """Whether a MigConfiguration requests GPU instances on it."""
    explicit: bool = False
    """Whether functions and GPU instances that exist may be taken away for it."""
    as_booted: bool = False
    """Whether the card is as a boot has left it: functions that a service made choose no mode.
    Since Hopper no card keeps its MIG mode over a boot."""


def effective(mode: str, enabled: bool, mig_desired: bool) -> Mode | None:
    """The mode to bring about; None where none is requested now, or there is none of that name.

    A mode that is about virtual functions waits until the GPU is to have them.
    """
    if not mode:
        return (Mode.MIG_BACKED if enabled else Mode.MIG) if mig_desired else None
    wanted = mode_named(mode)
    return None if wanted is None or (wanted.has_vfs and not enabled) else wanted


def mode_of(gpu: PciFunction, modes: GpuModes | None) -> Mode | None:
    """The mode that a GPU is in; None while not known."""
    has_vfs = bool(vf_count(gpu))
    if gpu.driver == VFIO_DRIVER and not has_vfs:
        return Mode.PASSTHROUGH
    if modes is None:
        return None
    if modes.mig:
        return Mode.MIG_BACKED if has_vfs else Mode.MIG
    if not has_vfs:
        return Mode.PASSTHROUGH
    return Mode.MIXED_SIZE if modes.mixed_size else Mode.SAME_SIZE


def decide(desired: DesiredMode, situation: Situation) -> Decision:
    """What is to be done to bring a GPU where its object requests it, in one plan."""
    if not situation.at_a_glance:
        return _plan(desired, situation)
    gpu = situation.inventory.function(desired.address)
    if gpu is None:
        return (DeviceNotFound(str(desired.address)),)
    modes = situation.gpus.get(desired.address)
    settled = _settled(desired, gpu, modes, situation.unasked.get(desired.address, ""))
    return TO_BE_PLANNED if settled is None else settled


def _settled(
    desired: DesiredMode, gpu: PciFunction, modes: GpuModes | None, error: str
) -> Satisfied | tuple[Refusal, ...] | None:
    if odd := _odd(desired):
        return (odd,)
    existing = vf_count(gpu)
    if existing and not desired.enabled and not desired.explicit:
        return (UnmanagedVfs(str(gpu.address), existing),)
    wanted = effective(desired.mode, desired.enabled, desired.mig_desired)
    if wanted is None:
        if bool(existing) == desired.enabled:
            return Satisfied()
        against = _loss(desired, Mode.MIG_BACKED, gpu, modes) if modes and modes.mig else None
        return (against,) if against else None
    found = mode_of(gpu, modes)
    if found is wanted:
        return Satisfied()
    if modes is None:
        return (GpuUnreadable(str(gpu.address), error),) if error else None
    against = _impossible(desired, wanted, gpu, modes)
    return (against,) if against else None


def _odd(desired: DesiredMode) -> Refusal | None:
    """What is wrong with the desired state itself, on any card."""
    if not desired.mode:
        return None
    mode = mode_named(desired.mode)
    if mode is None:
        return ModeInvalid(desired.mode)
    if desired.enabled and not mode.has_vfs:
        return ModeWithoutVfs(str(desired.address), mode)
    return None


def _impossible(
    desired: DesiredMode, wanted: Mode, gpu: PciFunction, modes: GpuModes
) -> Refusal | None:
    """Why this card cannot, or must not, leave the mode that it is in for another."""
    device = str(gpu.address)
    if wanted.has_mig and modes.mig is None:
        return MigUnsupported(device)
    settled = bool(vf_count(gpu)) and not modes.mig
    if wanted is Mode.MIXED_SIZE and settled and modes.mixed_size is None:
        return MixedSizeUnsupported(device)
    if modes.mig and not wanted.has_mig and desired.mig_desired:
        return MigConfigurationEnabled(device)
    return _loss(desired, wanted, gpu, modes)


def _loss(desired: DesiredMode, wanted: Mode, gpu: PciFunction, modes: GpuModes) -> Refusal | None:
    """What exists, was not made for this object and would have to go."""
    has_vfs, change = bool(vf_count(gpu)), bool(modes.mig) != wanted.has_mig
    switch = has_vfs != wanted.has_vfs
    by_boot = desired.as_booted and wanted.has_vfs
    lost = (modes.instances and (switch or change)) or (has_vfs and change and not by_boot)
    if desired.explicit or not lost:
        return None
    return UnmanagedMode(str(gpu.address), wanted, mode_of(gpu, modes) or "")


def _plan(desired: DesiredMode, situation: Situation) -> Decision:
    gpu = vgpu_card(desired.address, situation)
    if isinstance(gpu, tuple):
        return gpu
    against = list(unfit(gpu.address, situation))
    modes = situation.gpus.get(gpu.address)
    settled = _settled(desired, gpu, modes, situation.unasked.get(gpu.address, ""))
    if settled is not None:
        return tuple(against) or settled
    modes = modes or GpuModes()
    wanted = effective(desired.mode, desired.enabled, desired.mig_desired)
    mig = bool(modes.mig) if wanted is None else wanted.has_mig
    empty = without_instances(gpu.address, situation)
    against += unserved(gpu, situation)
    more, steps = transition(gpu, modes, empty, functions=desired.enabled, mig=mig)
    against += more
    mixed = bool(modes.mixed_size) and not steps
    if wanted in (Mode.SAME_SIZE, Mode.MIXED_SIZE) and mixed != (wanted is Mode.MIXED_SIZE):
        steps.append(SetMixedSize(gpu.address, enabled=not mixed))
    # vGPUs count here as what is in use: their removal is desired of each by itself.
    return conclude([*against, *obstacles(gpu, situation)], steps)


def pending(desired: DesiredMode, inventory: Inventory) -> str:
    """In words, what is still to be done for the spec; empty where nothing is or can be."""
    if not isinstance(decide(desired, glance(inventory)), Plan):
        return ""
    wanted = effective(desired.mode, desired.enabled, desired.mig_desired)
    if wanted is not None:
        return f"its mode changes to {wanted}"
    return f"its virtual functions are being {'enabled' if desired.enabled else 'disabled'}"
