"""Room for vGPUs that share a GPU by time, on a fleet's GPUs in the modes SameSize and MixedSize.

In shapes of this module the start of a vGPU is its first memory slot, in mixed-size mode.
"""

from __future__ import annotations

from functools import lru_cache

from laneway.core.fleet import board
from laneway.core.fleet.shape import How, Shape, Taken, resource_of, taken
from laneway.core.packing import gpus
from laneway.core.vgpu.placement import Carried, arrange, most
from laneway.core.vgpu.profiles import MIB_PER_GIB


@lru_cache(maxsize=65536)
def take(shape: Shape, resource: str) -> Taken | None:
    """One more vGPU of a resource on a GPU; None where it has no room for it."""
    if shape.claimed:
        return None
    of_resource = [one for one in shape.free if resource_of(one.profile) == resource]
    if of_resource:
        others = tuple(one for one in shape.free if one not in of_resource)
        (index,), _ = gpus.best(shape.packed, shape.kept + others, of_resource)
        one = of_resource.pop(index)
        return taken(shape, one, How.EXISTS, free=(*others, *of_resource), nearby=others)
    profile = _offered(shape, resource)
    if not profile:
        return None
    for free, how in ((shape.free, How.MADE), ((), How.MADE_IN_PLACE_OF_FREE)):
        there = shape.kept + free
        if shape.full(len(there)):
            continue
        placed = arrange(shape.card, there, {profile: 1}, mixed=shape.mixed)
        if placed is not None:
            return taken(shape, Carried(profile, placed[0].start), how, free=free, nearby=free)
    return None


def _offered(shape: Shape, resource: str) -> str:
    """The profile that the GPU can be given for a resource; empty: none."""
    return _profile(shape, resource) if shape.mode in board.SHARED_BY_TIME else ""


def _profile(shape: Shape, resource: str) -> str:
    """The profile of the board for a resource; empty: it has none."""
    return next((name for name in shape.card.kinds if resource_of(name) == resource), "")


@lru_cache(maxsize=65536)
def room_for(shape: Shape, resource: str) -> int:
    """How many vGPUs of one resource VMs could get there, if it were the only one."""
    if shape.claimed:
        return 0
    ready = sum(resource_of(one.profile) == resource for one in shape.free)
    profile = _offered(shape, resource)
    if not profile:
        return ready
    count = most(shape.card, shape.kept, profile, mixed=shape.mixed)
    if shape.functions:
        count = min(count, max(0, shape.functions - len(shape.kept)))
    return max(ready, count)


def lack(shape: Shape, resource: str) -> str:
    """Why a GPU has no room, as the rest of a sentence; empty: its board has no such profile."""
    profile, kinds = _profile(shape, resource), shape.card.kinds
    if not profile:
        return ""
    if shape.mode not in board.SHARED_BY_TIME:
        return f"in mode {shape.mode}, which has no such vGPUs"
    need = kinds[profile].framebuffer_mib
    held = [kinds[one.profile].framebuffer_mib for one in shape.kept if one.profile in kinds]
    if not shape.mixed and {*held} - {need}:
        return "with vGPUs of another size in use, in mode SameSize"
    if shape.card.region * MIB_PER_GIB - sum(held) >= need:
        return "with enough free memory, but not in one piece where the profile can be placed"
    return "with too little free memory"
