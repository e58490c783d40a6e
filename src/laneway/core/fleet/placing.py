"""Where on a fleet's GPUs the next vGPU goes: what each GPU can take, and which one is preferred.

What a VM has stays where it is. A free vGPU of the profile is used first. Otherwise a vGPU is made
where there is room next to all others. As the last choice it is made where there is room once the
free ones of the GPU are removed. `rank` alone holds the preference among these: as on a cluster,
where the scheduler's hint and the device plugin decide by the same policy (`core/packing`), it is
the place that costs the least.
"""

from __future__ import annotations

from laneway.core.fleet import backed, sliced
from laneway.core.fleet import shape as shapes
from laneway.core.fleet.model import Gpu
from laneway.core.fleet.shape import How, Shape, Taken
from laneway.core.gpu.modes import Mode
from laneway.core.packing import gpus
from laneway.core.packing.policy import Score


def shape_of(gpu: Gpu) -> Shape:
    """A GPU of a fleet as it is."""
    return backed.shape_of(gpu) if gpu.mode == Mode.MIG_BACKED else shapes.shape_of(gpu)


def take(shape: Shape, resource: str) -> Taken | None:
    """One more vGPU of a resource on a GPU; None where it has no room for it."""
    if shape.mode == Mode.MIG_BACKED:
        return backed.take(shape, resource)
    return sliced.take(shape, resource)


def room_for(shape: Shape, resource: str) -> int:
    """How many vGPUs of one resource VMs could get there, if it were the only one."""
    if shape.mode == Mode.MIG_BACKED:
        return backed.room_for(shape, resource)
    return sliced.room_for(shape, resource)


def lack(shape: Shape, resource: str) -> str:
    """Why a GPU has no room, as the rest of a sentence; empty: its board has no such profile."""
    why = sliced.lack(shape, resource) or backed.lack(shape, resource)
    return "in use as a whole" if why and shape.claimed else why


def rank(*taken: Taken) -> Score:
    """Of one or of several together; the least is preferred: what exists, then what costs least."""
    if len(taken) == 1:
        return taken[0].rank
    how = max((one.how for one in taken), default=How.EXISTS)
    return how, *gpus.total(one.rank[1:] for one in taken)
