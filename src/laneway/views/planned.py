"""What a GPU would be like with other vGPUs, worked out from its objects alone.

This is decided by the same code as on the node, and answers at once without a right to write
anything. The agent sees more, such as processes that use the card, so its answer to a trial counts
where there is one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.decision import Decision, refusals_of, steps_of
from laneway.core.gpu.modes import GpuModes
from laneway.core.layout.desired import DesiredLayout, desired_of, plan_desired
from laneway.core.layout.forecast import fits_afterwards
from laneway.core.layout.plan import DesiredGpu
from laneway.core.mig.instances import Obstacle, arrange_instances, instances_needed
from laneway.core.mig.positions import Position
from laneway.core.mig.profiles import expected_profiles, per_instance, serving
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateGpuInstance, DestroyGpuInstance, Plan
from laneway.core.situation import Situation
from laneway.core.words import describe
from laneway.views.gpus import Gpu
from laneway.views.situation import situation_of


class Inside(NamedTuple):
    """A vGPU in a GPU instance."""

    profile: str
    start: int
    """Of the instance, in eighths of the card."""
    address: str = ""
    """Of its function, where the vGPU is there already."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects say about a desired state."""

    refusals: Sequence[str] = ()
    """What speaks against it; empty: nothing that the objects show."""
    steps: Sequence[str] = ()
    fits: Mapping[str, int] = {}
    """How many more of each profile would fit then; empty in MIG mode."""
    has_mig: bool = False
    """Whether the GPU is in MIG mode then."""
    added: Sequence[Position] = ()
    """GPU instances that are made."""
    removed: frozenset[int] = frozenset()
    """Ids of those that go."""
    inside: Sequence[Inside] = ()
    """The vGPUs in GPU instances."""


def planned(
    gpu: Gpu, vgpus: Mapping[str, int], mode: str, holders: Mapping[str, str]
) -> Planned | None:
    """What becomes of a GPU that is to have these vGPUs; None where too little is known of it.

    `vgpus`: by profile in the driver's names. `mode`: empty for the one that they need. `holders`:
    the holder of the vGPU of a function, by the function's address.
    """
    situation = situation_of(gpu, holders)
    if situation is None:
        return None
    wanted = {name: count for name, count in vgpus.items() if count}
    desired = desired_of(PciAddress.parse(gpu.address), mode, wanted.items())
    if isinstance(desired, tuple):
        return Planned(refusals=[one.words for one in desired])
    decision = plan_desired(desired, situation)
    if refusals := refusals_of(decision):
        return Planned(refusals=[one.words for one in refusals])
    steps: list[str] = []
    if isinstance(decision, Plan):
        steps = [*map(describe, decision.steps), *decision.then]
    function = situation.inventory.functions[0]
    modes = situation.gpus[function.address]
    if _has_mig(desired, modes):
        return _in_instances(gpu, wanted, steps, decision, modes)
    return Planned(
        steps=steps, fits=fits_afterwards(_as_it_is(desired, situation), function, situation)
    )


def _has_mig(desired: DesiredLayout, modes: GpuModes) -> bool:
    return bool(modes.mig) if desired.mode is None else desired.mode.has_mig


def _as_it_is(desired: DesiredLayout, situation: Situation) -> DesiredGpu:
    """The desired state, in the mode that the GPU is in where none is desired."""
    if desired.mode is not None:
        return desired.gpu
    mixed = bool(situation.gpus[desired.gpu.address].mixed_size)
    return msgspec.structs.replace(desired.gpu, mixed_size=mixed)


# ---------------------------------------------------------------------------------- GPU instances


def _in_instances(
    gpu: Gpu,
    wanted: Mapping[str, int],
    steps: Sequence[str],
    decision: Decision,
    modes: GpuModes,
) -> Planned:
    device = gpu.pci.status.device_id if gpu.pci is not None else ""
    offered = {one.name: one for one in modes.profiles or expected_profiles(device)}
    gone: set[int] = set()
    added: list[Position] = []
    for step in steps_of(decision):
        if isinstance(step, DestroyGpuInstance):
            gone.add(step.start)
        if isinstance(step, CreateGpuInstance) and step.profile in offered:
            added.append(Position(step.profile, step.start, offered[step.profile].size))
    if not modes.mig:
        # What it makes in MIG mode is a plan of its own, which begins with an empty card.
        needed = instances_needed(wanted, offered.values())
        if not isinstance(needed, Obstacle):
            found = arrange_instances(offered.values(), (), needed)
            if not isinstance(found, Obstacle):
                added = [Position(one.name, start, one.size) for one, start in found.create]
    kept = [one for one in modes.instances if one.start not in gone]
    homes = [*((one.profile, one.start) for one in kept), *((one[0], one[1]) for one in added)]
    return Planned(
        steps=steps,
        has_mig=True,
        added=added,
        removed=frozenset(one.id for one in modes.instances if one.start in gone),
        inside=list(_inside(gpu, wanted, {one.id: one.start for one in kept}, homes)),
    )


def _inside(
    gpu: Gpu, wanted: Mapping[str, int], kept: Mapping[int, int], homes: Sequence[tuple[str, int]]
) -> Iterator[Inside]:
    """The vGPUs: those that stay first, then each in the first instance with room.

    `kept`: where the instances are that stay, by id. `homes`: profile and place of all.
    """
    left, full = Counter(wanted), Counter[int]()
    for vgpu in gpu.vgpus:
        name, instance = vgpu.status.configure_vgpu_type_name, vgpu.status.gpu_instance
        start = None if instance is None else kept.get(instance)
        if start is not None and left[name] > 0:
            left[name] -= 1
            full[start] += 1
            yield Inside(name, start, vgpu.spec.address)
    offered = expected_profiles(gpu.pci.status.device_id if gpu.pci is not None else "")
    for name in (+left).elements():
        if (serves := serving(name, offered)) is None:
            continue
        most = per_instance(*serves)
        fitting = (at for called, at in homes if called == serves[1].name and full[at] < most)
        if (home := next(fitting, None)) is not None:
            full[home] += 1
            yield Inside(name, home)
