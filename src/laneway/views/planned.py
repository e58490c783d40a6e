"""What a GPU would be like with other vGPUs, worked out from its objects alone.

This is decided by the same code as on the node, and answers at once without a right to write
anything. The agent sees more: processes that use the card, and where the driver has put GPU
instances. So its answer to a trial counts where there is one, and this gives the picture.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from laneway.core.decision import refusals_of
from laneway.core.gpu.modes import GpuInstanceProfile
from laneway.core.layout.desired import DesiredLayout, desired_of, plan_desired
from laneway.core.layout.forecast import fits_afterwards
from laneway.core.layout.sliced import card, staying
from laneway.core.layout.view import missing, view_of
from laneway.core.mig.fitting import misfit
from laneway.core.mig.instances import Obstacle, instances_needed
from laneway.core.mig.profiles import (
    bare_name,
    compute_slices,
    expected_profiles,
    memory_gib,
    per_instance,
    serving,
)
from laneway.core.pci import PciAddress
from laneway.core.phrases import several
from laneway.core.plan import Plan
from laneway.core.refusals import InstancesDoNotFit
from laneway.core.situation import Situation
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.occupancy import Occupancy, Vgpu, partitioned, time_sliced
from laneway.core.vgpu.placement import arrange, carried_on
from laneway.core.vgpu.profiles import Profile
from laneway.core.words import describe
from laneway.views.gpus import Gpu
from laneway.views.situation import situation_of


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects say about a desired state."""

    refusals: Sequence[str] = ()
    """What speaks against it; empty: nothing that the objects show."""
    steps: Sequence[str] = ()
    fits: Mapping[str, int] = {}
    """How many more of each profile would fit then; empty in MIG mode."""
    occupancy: Occupancy | None = None
    """The memory then; None where it is refused, or the memory is not known."""
    vgpus: Mapping[str, str] = {}
    """The profile of each vGPU in it, by its function."""
    instances: Sequence[int] = ()
    """Ids of the GPU instances in it, in their order; 0 for a new one."""
    compute: int = 0
    """Compute slices of a GPU that is in MIG mode then."""


def planned(
    gpu: Gpu, vgpus: Mapping[str, int], mode: str, holders: Mapping[str, str]
) -> Planned | None:
    """What becomes of a GPU that is to have these vGPUs; None where too little is known of it.

    `vgpus`: by profile in the driver's names. `mode`: empty for the one that they need. `holders`:
    who has the vGPU of a function, by the function's address.
    """
    situation = situation_of(gpu, holders)
    if situation is None:
        return None
    wanted = {name: count for name, count in vgpus.items() if count}
    desired = desired_of(PciAddress.parse(gpu.address), mode, wanted.items())
    if isinstance(desired, tuple):
        return Planned(refusals=[one.words for one in desired])
    if desired.mode is not None and desired.mode.has_mig:
        return _in_instances(gpu, desired, wanted, situation)
    return _sliced(desired, situation)


# ---------------------------------------------------------------------------------- time-sliced


def _sliced(desired: DesiredLayout, situation: Situation) -> Planned:
    decision = plan_desired(desired, situation)
    if refusals := refusals_of(decision):
        return Planned(refusals=[one.words for one in refusals])
    steps: list[str] = []
    if isinstance(decision, Plan):
        steps = [*map(describe, decision.steps), *decision.then]
    function = situation.inventory.functions[0]
    view = view_of(desired.gpu, function, situation)
    if desired.mode is None:
        mixed = bool(view.modes.mixed_size)
        view = view_of(msgspec.structs.replace(desired.gpu, mixed_size=mixed), function, situation)
    stays = () if view.modes.mig else staying(view)
    placed = arrange(
        card(view), carried_on(stays), missing(view, stays), mixed=view.desired.mixed_size
    )
    free = [str(one.address) for one in view.functions if one not in stays]
    after = [
        Vgpu(str(one.address), one.configured.type_name, one.configured.placement)
        for one in stays
        if one.configured
    ]
    after += [
        Vgpu(free[n] if n < len(free) else f"new {n}", one.profile, one.start)
        for n, one in enumerate(placed or ())
    ]
    fits = fits_afterwards(view.desired, function, situation)
    return Planned(
        steps=steps,
        fits=fits,
        occupancy=time_sliced(card(view), after),
        vgpus={one.address: one.profile for one in after},
    )


# ---------------------------------------------------------------------------------- GPU instances


def _in_instances(
    gpu: Gpu, desired: DesiredLayout, wanted: Mapping[str, int], situation: Situation
) -> Planned:
    """Where GPU instances are is in no object, so they are drawn in the order of their ids."""
    function = situation.inventory.functions[0]
    offered = _offered(gpu)
    needed = instances_needed(wanted, offered)
    if isinstance(needed, Obstacle):
        return Planned(refusals=[_misfit(gpu, wanted, needed.text)])
    if why := misfit({one.name: one.total for one in offered}, needed):
        return Planned(refusals=[_misfit(gpu, wanted, why)])
    steps: Sequence[str] = ()
    if not situation.gpus[function.address].mig:
        decision = plan_desired(desired, situation)
        if refusals := refusals_of(decision):
            return Planned(refusals=[one.words for one in refusals])
        if isinstance(decision, Plan):
            steps = [*map(describe, decision.steps), *decision.then]
    board = card_of(function.device, (*gpu.device.status.fits, *wanted))
    there = _existing(gpu)
    kept = _kept(there, Counter(needed), board.region, offered)
    new = list((Counter(needed) - Counter(name for _, name in kept)).elements())
    last = max((number for number, _ in kept), default=0)
    every = [*kept, *((last + n, name) for n, name in enumerate(new, 1))]
    inside = _inside(gpu, wanted, every, offered)
    return Planned(
        steps=steps,
        occupancy=partitioned(board, every, inside),
        vgpus={one.address: one.profile for one in inside},
        instances=[number if number <= last else 0 for number, _ in every],
        compute=_slices(offered),
    )


def _misfit(gpu: Gpu, wanted: Mapping[str, int], why: str) -> str:
    asked = tuple(f"for {several(name, count)}" for name, count in wanted.items())
    return InstancesDoNotFit(gpu.address, asked, why).words


def _offered(gpu: Gpu) -> tuple[GpuInstanceProfile, ...]:
    """The profiles of GPU instances: as the driver lists them in MIG mode, else the catalogue's."""
    if gpu.mig is not None and gpu.mig.status.profile_status:
        return tuple(
            GpuInstanceProfile(bare_name(one.name), one.id, one.total, (), memory_gib(one.name))
            for one in gpu.mig.status.profile_status
        )
    return expected_profiles(gpu.pci.status.device_id) if gpu.pci is not None else ()


def _existing(gpu: Gpu) -> list[tuple[int, str]]:
    if gpu.mig is None:
        return []
    return sorted(
        (int(number), bare_name(one.name))
        for one in gpu.mig.status.profile_status
        for number in one.vgpu_ids
        if number.isdecimal()
    )


def _slices(offered: Sequence[GpuInstanceProfile]) -> int:
    """Compute slices of the whole card."""
    return max((compute_slices(one.name) * max(1, one.total) for one in offered), default=0)


def _kept(
    there: list[tuple[int, str]],
    needed: Counter[str],
    region: int,
    offered: Sequence[GpuInstanceProfile],
) -> list[tuple[int, str]]:
    """Those that stay: all, where the new ones have room as well; else what is needed."""
    every = Counter(name for _, name in there) | needed
    slices = _slices(offered)
    memory = sum(memory_gib(name) * count for name, count in every.items())
    if memory <= region and sum(compute_slices(n) * c for n, c in every.items()) <= slices:
        return there
    left, kept = Counter(needed), []
    for number, name in there:
        if left[name] > 0:
            left[name] -= 1
            kept.append((number, name))
    return kept


def _inside(
    gpu: Gpu,
    wanted: Mapping[str, int],
    every: Sequence[tuple[int, str]],
    offered: Sequence[GpuInstanceProfile],
) -> list[Vgpu]:
    """The vGPUs, those that are there first, each in the first instance with room."""
    left = Counter(wanted)
    numbers = {number for number, _ in every}
    found: list[Vgpu] = []
    for vgpu in gpu.vgpus:
        name, instance = vgpu.status.configure_vgpu_type_name, vgpu.status.gpu_instance
        if vgpu.status.vgpu_status and left[name] > 0 and instance in numbers:
            left[name] -= 1
            found.append(Vgpu(vgpu.spec.address, name, None, instance))
    taken = {one.address for one in found}
    free = iter([one.spec.address for one in gpu.vgpus if one.spec.address not in taken])
    inside = Counter(one.instance for one in found)
    for place, name in enumerate((+left).elements()):
        if (serves := serving(name, offered)) is not None:
            home = _home(serves, every, inside)
            inside[home] += 1
            found.append(Vgpu(next(free, f"new {place}"), name, None, home))
    return found


def _home(
    serves: tuple[Profile, GpuInstanceProfile],
    every: Sequence[tuple[int, str]],
    inside: Mapping[int | None, int],
) -> int | None:
    """The first GPU instance with room for one more."""
    vgpu, instance = serves
    most = per_instance(vgpu, instance)
    fitting = (number for number, name in every if name == instance.name)
    return next((number for number in fitting if inside.get(number, 0) < most), None)
