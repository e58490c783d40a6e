"""What to do about a card's GPU instances: a spec and an observation in, a plan or a reason out.

A spec names all instances that there are to be, so whatever is there, half made or made by
something else, is a start from which as few as possible are destroyed. What runs is adopted all the
same: an instance that was not requested goes only on an explicit spec, one that carries a vGPU
never, and none at all while the card computes, as it is not known on which instance. Missing ones
need no proof, so they come back after a reboot. MIG mode itself is never switched from here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.decision import Decision, conclude
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.inventory import Inventory
from laneway.core.mig.instances import (
    InstanceSet,
    Obstacle,
    arrange_instances,
    assemble,
    placements_of,
)
from laneway.core.mig.profiles import bare_name, display_name
from laneway.core.passthrough.fitness import find, unfit
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateComputeInstance, Plan, Satisfied, Step
from laneway.core.refusals import (
    DeviceHeld,
    DriverMissing,
    DuplicateProfile,
    ExtraInstances,
    GpuNotReady,
    GpuUnreadable,
    InstanceCountInvalid,
    InstancesDoNotFit,
    MigModeDisabled,
    MigUnsupported,
    ProfileNotListed,
    Refusal,
    UnmanagedInstances,
)
from laneway.core.situation import Situation, ends, pids
from laneway.core.sriov.vfs import NVIDIA_DRIVER, VGPU_DRIVER, held

_LONGEST = 64
"""Characters of a profile name that a message repeats."""


class DesiredMig(msgspec.Struct, frozen=True):
    """What the object's spec requests."""

    address: PciAddress
    gpu: str
    """Name of the SRIOVGPUDevice, whose mode decides about MIG mode."""
    enabled: bool
    requested: tuple[tuple[str, int], ...]
    """Profile, as written, and count. Without the driver's id of the profile: that is
    another on each board, while the name says what one gets."""
    explicit: bool
    """Whether instances that exist may be destroyed for it. To make one needs no proof."""


# ------------------------------------------------------------------------------------- the answer


def decide(desired: DesiredMig, situation: Situation, *, preparing: str = "") -> Decision:
    """Have a card carry exactly the GPU instances of a desired state.

    `preparing`: what must first be done about the card itself, in words. Switching its functions
    or its mode would destroy instances, so none is made before that.
    """
    gpu = find(desired.address, situation)
    if gpu is None or unfit(desired.address, situation):
        return unfit(desired.address, situation)
    device = str(desired.address)
    if gpu.driver != NVIDIA_DRIVER:
        needed = DriverMissing(device, gpu.driver, VGPU_DRIVER)
        return (needed,) if desired.enabled else Satisfied()
    modes = situation.gpus.get(desired.address)
    if modes is None:
        return (GpuUnreadable(device, situation.unasked.get(desired.address, "it was not read")),)
    if modes.mig is None:
        return (MigUnsupported(device),) if desired.enabled else Satisfied()
    wanted = _wanted(desired, modes.profiles)
    if isinstance(wanted, tuple):
        return wanted
    if wanted and preparing:
        return (GpuNotReady(device, preparing),)
    if wanted and not modes.mig:
        return (MigModeDisabled(device, desired.gpu),)
    return _converge(desired, wanted, modes, situation)


def is_complete(desired: DesiredMig, inventory: Inventory) -> bool:
    """Whether every instance that is desired exists, whatever else does."""
    modes = inventory.modes.get(desired.address)
    wanted = _wanted(desired, modes.profiles) if modes else ()
    return isinstance(wanted, dict) and modes is not None and not _lacking(wanted, modes)


# --------------------------------------------------------------------------------- what is wanted


def _wanted(
    desired: DesiredMig, offered: Iterable[GpuInstanceProfile]
) -> dict[str, int] | tuple[Refusal, ...]:
    """Counts by profile, without those of which none is desired; or what is wrong with them."""
    if not desired.enabled:
        return {}
    known = {one.name for one in offered}
    against: list[Refusal] = []
    wanted: dict[str, int] = {}
    for text, count in desired.requested:
        name = bare_name(text)
        if count == 0:
            continue  # A profile that a driver no longer has needs no answer.
        if count < 0:
            against.append(InstanceCountInvalid(text[:_LONGEST], count))
        elif name not in known:
            names = tuple(map(display_name, sorted(known)))
            against.append(ProfileNotListed(text[:_LONGEST], names))
        elif name in wanted:
            against.append(DuplicateProfile(display_name(name)))
        else:
            wanted[name] = count
    return tuple(dict.fromkeys(against)) or wanted


def _lacking(wanted: Mapping[str, int], modes: GpuModes) -> Counter[str]:
    return Counter(wanted) - Counter(one.profile for one in modes.instances)


# ------------------------------------------------------------------------------------ the way there


def _converge(
    desired: DesiredMig, wanted: dict[str, int], modes: GpuModes, situation: Situation
) -> Decision:
    device, there = str(desired.address), modes.instances
    users = _users(desired.address, modes, situation)
    best = arrange_instances(modes.profiles, there, wanted, carrying=frozenset(users), exact=True)
    if isinstance(best, Obstacle):
        asked = tuple(f"{count} x {display_name(name)}" for name, count in wanted.items())
        return (InstancesDoNotFit(device, asked, best.text),)
    if not best.destroy:
        return conclude((), _steps(desired.address, best, wanted, modes))
    if not desired.explicit:
        return _additions(desired, wanted, modes, best)
    found = arrange_instances(modes.profiles, there, wanted, pinned=frozenset(users), exact=True)
    if isinstance(found, Obstacle):
        uses = (use for one in best.destroy for use in users.get(one.start, ()))
        functions = (one.address for one in situation.inventory.vgpus_of(desired.address))
        holders = [one for address in functions for one in situation.holders.get(address, ())]
        texts = tuple(dict.fromkeys(uses))
        return (DeviceHeld(device, texts, pids(holders), ends(holders)),)
    against = held(desired.address, situation)
    return conclude(against, _steps(desired.address, found, wanted, modes))


def _additions(
    desired: DesiredMig, wanted: dict[str, int], modes: GpuModes, best: InstanceSet
) -> Decision:
    """What can be made of the desired state while nothing that there is goes."""
    everything = frozenset(one.start for one in modes.instances)
    found = arrange_instances(modes.profiles, modes.instances, wanted, pinned=everything)
    if isinstance(found, InstanceSet) and (steps := _steps(desired.address, found, wanted, modes)):
        return Plan(tuple(steps))
    others = tuple(map(_spot, sorted(best.destroy, key=lambda one: one.start)))
    if not wanted:
        return (UnmanagedInstances(str(desired.address), others),)
    lacking = tuple(
        f"{count} x {display_name(name)}" for name, count in _lacking(wanted, modes).items()
    )
    return (ExtraInstances(str(desired.address), others, lacking),)


def _steps(
    gpu: PciAddress, found: InstanceSet, wanted: Mapping[str, int], modes: GpuModes
) -> list[Step]:
    """Also the compute instances of half-made ones."""
    steps = assemble(gpu, found)
    left = Counter(wanted)
    kept = (one for one in modes.instances if one not in found.destroy)
    for one in sorted(kept, key=lambda one: (not one.compute_instances, one.start)):
        left[one.profile] -= 1
        if left[one.profile] >= 0 and not one.compute_instances:
            steps.append(CreateComputeInstance(gpu, one.start))
    return steps


# -------------------------------------------------------------------------------- who is in the way


def _users(gpu: PciAddress, modes: GpuModes, situation: Situation) -> dict[int, tuple[str, ...]]:
    """By placement, who keeps a GPU instance: the vGPUs in it, and those who hold them."""
    found: dict[int, tuple[str, ...]] = {}
    spots = {one.start: _spot(one) for one in modes.instances}
    for function in situation.inventory.vgpus_of(gpu):
        if function.configured is None:
            continue
        name = function.configured.type_name or function.configured.type_id
        holders = tuple(one.text for one in situation.holders.get(function.address, ()))
        for start in placements_of(function.configured, modes):
            use = f"vGPU {name} on {function.address} is in its GPU instance {spots[start]}"
            found[start] = (*found.get(start, ()), use, *holders)
    return found


def _spot(one: GpuInstance) -> str:
    return f"{display_name(one.profile)} at {one.start}"
