"""From a plan to specs: what a layout writes into the lower objects of one GPU, stage by stage.

A layout never touches hardware. The objects of the GPU, of its GPU instances and of its functions
are carried out by controllers of their own, each of which refuses what another one's hardware
forbids. So their desired states are written in the order in which a plan would do the work, and a
stage only once hardware shows the one before: vGPUs that go, the GPU's functions and mode, its GPU
instances, new vGPUs. Nothing but hardware and these objects says how far it has come, so a manager
that is killed between two writes goes on where it was.

At rest, and while only the controllers below have to work, that is known without a closer look.
"""

from __future__ import annotations

from collections import Counter
from typing import Literal

import msgspec

from laneway.core.gpu.modes import GpuModes, Mode
from laneway.core.layout.desired import DesiredLayout
from laneway.core.layout.objects import Found, GpuObject, MigObject, Objects
from laneway.core.mig.instances import Obstacle, instances_needed
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    CreateMdev,
    DestroyComputeInstance,
    DestroyGpuInstance,
    Plan,
    RemoveMdev,
    SetMigMode,
    SetMixedSize,
    SetVgpuType,
    Step,
    SwitchGpuVfs,
)
from laneway.core.refusals import VgpusEnabled, reason_of
from laneway.core.sriov.vfs import vf_count
from laneway.core.vgpu.desired import NO_VGPU

Waiting = Literal["vgpus to go", "the GPU", "GPU instances", "vGPUs", "nothing"]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """The next desired states to be written, and what is waited for when they are."""

    waiting: Waiting
    vgpus: tuple[tuple[str, str | None], ...] = ()
    """VGPUDevice by name, and the profile to enable; None: to disable. In the order of writing."""
    gpu: tuple[bool, str] | None = None
    """`enabled` and `mode` of the SRIOVGPUDevice."""
    mig: tuple[bool, dict[str, int]] | None = None
    """`enabled` of the MigConfiguration, and GPU instances by profile; none: as they are."""

    @property
    def writes(self) -> bool:
        return bool(self.vgpus or self.gpu or self.mig)


# -------------------------------------------------------------------------- without a closer look


def is_asked(desired: DesiredLayout, found: Found, objects: Objects) -> bool:
    """Whether the objects request exactly what the layout does, and hardware has nothing else."""
    asks = {one.address: one.asks for one in objects.vgpus if one.asks is not None}
    return (
        objects.gpu is not None
        and _desired_gpu(desired, found, objects.gpu) is None
        and not _must_leave_mig(desired, objects)
        and _instances_asked(desired, found, objects.mig)
        and Counter(asks.values()) == desired.wanted
        and all(asks.get(address) == name for address, name in found.carried.items())
    )


def is_met(desired: DesiredLayout, found: Found) -> bool:
    """Whether hardware is as the layout asks, as far as an inventory shows it."""
    return (
        bool(vf_count(found.gpu)) == desired.shared
        and bool(found.functions) == desired.shared
        and Counter(found.carried.values()) == desired.wanted
        and _is_in_mode(desired.mode, found.modes)
    )


def _is_in_mode(mode: Mode | None, modes: GpuModes | None) -> bool:
    if mode is None:
        return True
    if modes is None:  # What it carries proves the other modes.
        return mode is not Mode.MIG
    if bool(modes.mig) != mode.has_mig:
        return False
    if mode is Mode.SAME_SIZE:
        return not modes.mixed_size
    return mode is not Mode.MIXED_SIZE or modes.mixed_size is True


def _instances_asked(desired: DesiredLayout, found: Found, mig: MigObject | None) -> bool:
    if desired.mode is not Mode.MIG_BACKED or not desired.wanted:
        return True
    needed = _needed(desired, found)
    if needed is None or mig is None or not mig.enabled:
        return False
    return all(mig.requested.get(name, 0) >= count for name, count in needed.items())


# ---------------------------------------------------------------------------------- with a plan


def next_stage(desired: DesiredLayout, plan: Plan | None, found: Found, objects: Objects) -> Stage:
    """What to write next. `plan`: from the same look at hardware; None: it is as desired."""
    steps = plan.steps if plan else ()
    leaving, pending = _leaving(desired, steps, found, objects)
    if leaving or _goes(steps):
        return Stage(waiting="vgpus to go", vgpus=leaving)
    if _must_leave_mig(desired, objects):
        return Stage(waiting="the GPU", mig=(False, {}))
    gpu = _desired_gpu(desired, found, objects.gpu) if objects.gpu else None
    if gpu or objects.gpu is None or any(_is_about_mode(step) for step in steps):
        return Stage(waiting="the GPU", gpu=gpu)
    mig = _desired_mig(desired, steps, found, objects.mig)
    if mig or any(isinstance(step, _INSTANCE_STEPS) for step in steps):
        return Stage(waiting="GPU instances", mig=mig)
    coming = _coming(steps, pending, found, objects)
    if coming or any(_made(step) for step in steps):
        return Stage(waiting="vGPUs", vgpus=coming)
    return Stage(waiting="nothing")


def _leaving(
    desired: DesiredLayout, steps: tuple[Step, ...], found: Found, objects: Objects
) -> tuple[tuple[tuple[str, str | None], ...], Counter[str]]:
    """Specs that must not stay as they are, and the profiles that others wait for rightly."""
    goes = _goes(steps)
    stays = {address: name for address, name in found.carried.items() if address not in goes}
    open_ = desired.wanted - Counter(stays.values())
    again = _restarts(desired, steps, found, objects)
    pending: Counter[str] = Counter()
    leaving: list[tuple[str, str | None]] = []
    for one in objects.vgpus:
        if one.address in stays:
            if one.asks != stays[one.address]:
                leaving.append((one.name, stays[one.address]))
        elif one.asks is not None:
            if one.address in goes or again or pending[one.asks] >= open_[one.asks]:
                leaving.append((one.name, None))
            else:
                pending[one.asks] += 1
    return tuple(leaving), pending


def _restarts(
    desired: DesiredLayout, steps: tuple[Step, ...], found: Found, objects: Objects
) -> bool:
    """Whether no vGPU may be desired yet, because the GPU must change its mode first.

    Where the GPU's object has that mode already, as after a reboot, its controller sets it.
    """
    if not any(_is_about_mode(step, coming=False) for step in steps) or objects.gpu is None:
        return False
    refused = objects.gpu.refused
    in_the_way = refused is not None and refused.reason == reason_of(VgpusEnabled)
    return in_the_way or _desired_gpu(desired, found, objects.gpu) is not None


def _coming(
    steps: tuple[Step, ...], pending: Counter[str], found: Found, objects: Objects
) -> tuple[tuple[str, str | None], ...]:
    """What to request, in the order in which it must be made, on the first functions free."""
    asked = {one.address: one for one in objects.vgpus}
    free = [
        asked[one.address]
        for one in found.functions
        if one.configured is None and one.address in asked and asked[one.address].asks is None
    ]
    names: list[str] = []
    left = pending.copy()
    for name in filter(None, map(_made, steps)):
        if left[name]:
            left[name] -= 1
        else:
            names.append(name)
    # A function without an object is waited for.
    return tuple((one.name, name) for one, name in zip(free, names, strict=False))


# ------------------------------------------------------------------- desired state of one object


def _desired_gpu(desired: DesiredLayout, found: Found, gpu: GpuObject) -> tuple[bool, str] | None:
    """What the SRIOVGPUDevice must request; None where it does."""
    mode = _desired_mode(desired, found, gpu.mode)
    return None if (gpu.enabled, gpu.mode) == (desired.shared, mode) else (desired.shared, mode)


def _desired_mode(desired: DesiredLayout, found: Found, stored: str) -> str:
    """An implied mode that the GPU has by itself is not made a choice of its object."""
    if desired.mode is None:
        return "" if stored in (Mode.PASSTHROUGH, Mode.MIG) else stored
    if desired.mode is Mode.SAME_SIZE and not (desired.explicit or stored):
        other = found.modes is not None and (found.modes.mig or found.modes.mixed_size)
        return Mode.SAME_SIZE.value if other else ""
    return desired.mode.value


def _must_leave_mig(desired: DesiredLayout, objects: Objects) -> bool:
    """Whether GPU instances are requested on a card that is to be out of MIG mode."""
    leaves = desired.mode is not None and not desired.mode.has_mig
    return leaves and objects.mig is not None and objects.mig.enabled


def _desired_mig(
    desired: DesiredLayout, steps: tuple[Step, ...], found: Found, mig: MigObject | None
) -> tuple[bool, dict[str, int]] | None:
    """What the MigConfiguration must request; None where it does, or is not there yet."""
    needed = _needed(desired, found)
    if desired.mode is not Mode.MIG_BACKED or not desired.wanted or mig is None or needed is None:
        return None
    after = Counter(one.profile for one in found.modes.instances) if found.modes else Counter()
    for step in steps:
        if isinstance(step, CreateGpuInstance):
            after[step.profile] += 1
        elif isinstance(step, DestroyGpuInstance):
            after[step.profile] -= 1
    enough = all(mig.requested.get(name, 0) >= count for name, count in needed.items())
    possible = all(count <= after[name] for name, count in mig.requested.items())
    if mig.enabled and enough and possible:
        return None
    return True, dict(+after)


def _needed(desired: DesiredLayout, found: Found) -> dict[str, int] | None:
    """GPU instances by profile; None where not known."""
    if found.modes is None or not found.modes.profiles:
        return None
    vgpus = [one.configured for one in found.functions if one.configured]
    taken = [(one.gpu_instance, one.type_name) for one in vgpus if one.gpu_instance is not None]
    known = [(at, name) for at, name in taken if name in desired.wanted]
    needed = instances_needed(desired.wanted, found.modes.profiles, known)
    return None if isinstance(needed, Obstacle) else needed


# ------------------------------------------------------------------------------- kinds of steps

_INSTANCE_STEPS = (
    CreateGpuInstance,
    DestroyGpuInstance,
    CreateComputeInstance,
    DestroyComputeInstance,
)


def _goes(steps: tuple[Step, ...]) -> frozenset[PciAddress]:
    """Functions whose vGPU a plan removes."""
    return frozenset(
        step.function
        for step in steps
        if isinstance(step, RemoveMdev)
        or (isinstance(step, SetVgpuType) and step.type_id == NO_VGPU)
    )


def _made(step: Step) -> str:
    """The profile of the vGPU that a step makes; empty for any other step."""
    match step:
        case CreateMdev(profile=profile):
            return profile
        case SetVgpuType(type_id=type_id, profile=profile) if type_id != NO_VGPU:
            return profile
        case _:
            return ""


def _is_about_mode(step: Step, *, coming: bool = True) -> bool:
    """Whether a step is the GPU's own. `coming`: also one that only makes functions."""
    match step:
        case SwitchGpuVfs(_, enabled):
            return coming or not enabled
        case SetMigMode() | SetMixedSize(_, _, None):
            return True
        case _:
            return False
