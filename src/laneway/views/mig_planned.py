"""What a GPU would be like with other GPU instances, worked out from its objects alone.

The same code decides as on the node, with the places that the catalogue knows for the card. So
GPU instances that do not fit together are refused before anything is written, and where each would
be can be drawn. The agent knows more, such as media engines, and has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from laneway.core.decision import refusals_of, steps_of
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile
from laneway.core.mig.desired import DesiredMig, decide
from laneway.core.mig.fitting import misfit
from laneway.core.mig.instances import how_many_more
from laneway.core.mig.positions import Position, free_positions, geometry
from laneway.core.mig.profiles import bare_name, display_name
from laneway.core.pci import PciAddress
from laneway.core.plan import CreateGpuInstance, DestroyGpuInstance, Step
from laneway.core.refusals import InstancesDoNotFit
from laneway.core.words import describe
from laneway.views.gpus import Gpu
from laneway.views.situation import situation_of


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What the objects say about desired GPU instances."""

    refusals: Sequence[str] = ()
    """What speaks against them; empty: nothing that the objects show."""
    steps: Sequence[str] = ()
    added: Sequence[Position] = ()
    removed: Sequence[int] = ()
    """Ids of the GPU instances that are destroyed."""
    room: Sequence[Position] = ()
    """Where one more could be then."""


def totals(gpu: Gpu) -> dict[str, int]:
    """How many GPU instances of each profile an empty GPU takes, in the driver's order."""
    reported = gpu.mig.status.profile_status if gpu.mig is not None else ()
    return {bare_name(one.name): one.total for one in reported}


def planned(gpu: Gpu, counts: Mapping[str, int], holders: Mapping[str, str]) -> Planned:
    """What becomes of a GPU that is to have exactly these GPU instances, and no others.

    `holders`: the holder of the vGPU of a function, by the function's address.
    """
    wanted = {name: count for name, count in counts.items() if count > 0}
    offered, situation = _offered(gpu), situation_of(gpu, holders)
    if situation is None or wanted.keys() - {one.name for one in offered}:
        return _unplaced(gpu, wanted)
    address = PciAddress.parse(gpu.address)
    modes = msgspec.structs.replace(situation.gpus[address], profiles=tuple(offered))
    if len(modes.instances) != len(gpu.instances):  # Where they are is not known.
        return _unplaced(gpu, wanted)
    desired = DesiredMig(address, gpu.name, bool(wanted), tuple(wanted.items()), explicit=True)
    decision = decide(desired, msgspec.structs.replace(situation, gpus={address: modes}))
    if refusals := refusals_of(decision):
        return Planned(refusals=[one.words for one in refusals])
    return _placed(gpu, steps_of(decision), offered, modes.instances)


def _unplaced(gpu: Gpu, wanted: Mapping[str, int]) -> Planned:
    """A card whose places are not known: only what fits nowhere is refused."""
    if why := misfit(totals(gpu), wanted):
        asked = tuple(f"{count} x {display_name(name)}" for name, count in wanted.items())
        return Planned(refusals=[InstancesDoNotFit(gpu.address, asked, why).words])
    return Planned()


def _placed(
    gpu: Gpu,
    steps: Sequence[Step],
    offered: Sequence[GpuInstanceProfile],
    there: Sequence[GpuInstance],
) -> Planned:
    sizes = {one.name: one.size for one in offered}
    gone = {step.start for step in steps if isinstance(step, DestroyGpuInstance)}
    added = [
        Position(step.profile, step.start, sizes[step.profile])
        for step in steps
        if isinstance(step, CreateGpuInstance)
    ]
    kept = [one for one in there if one.start not in gone]
    then = [*(Position(one.profile, one.start, one.size) for one in kept), *added]
    instances = [GpuInstance(0, one.profile, 0, one.start, one.size) for one in then]
    more = {one.name: how_many_more(one, offered, instances) for one in offered}
    return Planned(
        steps=[describe(step) for step in steps],
        added=added,
        removed=[one.id for one in there if one.start in gone],
        room=free_positions(_device(gpu), then, more),
    )


def _offered(gpu: Gpu) -> list[GpuInstanceProfile]:
    """The profiles that the driver lists, with the places that the catalogue knows."""
    found = []
    for one in gpu.mig.status.profile_status if gpu.mig is not None else ():
        name = bare_name(one.name)
        if (known := geometry(_device(gpu), name)) is not None:
            found.append(GpuInstanceProfile(name, one.id, one.total, known.starts, known.size))
    return found


def _device(gpu: Gpu) -> str:
    return gpu.pci.status.device_id if gpu.pci is not None else ""
