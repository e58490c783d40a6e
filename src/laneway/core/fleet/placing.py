"""Where on a fleet's GPUs the next vGPU goes: what each GPU can take, and which one is preferred.

What a VM has stays where it is. A free vGPU of the profile is used first. Otherwise a vGPU is made
where there is room next to all others. As the last choice it is made where there is room once the
free ones of the GPU are removed. `rank` alone holds the preference among these: as on a cluster,
where the scheduler's hint and the device plugin decide by the same policy (`core/packing`), it is
the place that costs the least.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache

import msgspec

from laneway.core.fleet.model import Gpu
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, Mode
from laneway.core.names import vgpu_resource_name
from laneway.core.packing import gpus
from laneway.core.packing.policy import Score
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried, arrange, most


class How(IntEnum):
    """How a VM gets a vGPU, the gentlest first."""

    EXISTS = 0
    MADE = 1
    MADE_IN_PLACE_OF_FREE = 2


class Shape(msgspec.Struct, frozen=True, cache_hash=True):
    """A GPU as far as room on it matters; GPUs of one shape are interchangeable."""

    device: str
    profiles: tuple[str, ...]
    mode: str
    functions: int
    claimed: bool
    kept: tuple[Carried, ...] = ()
    """What stays: held, or placed by the plan, or unhealthy."""
    free: tuple[Carried, ...] = ()
    """What exists without a holder."""
    instances: tuple[GpuInstance, ...] = ()
    """In the mode MIGBacked, as `core.fleet.backed` has them."""
    instance_profiles: tuple[GpuInstanceProfile, ...] = ()
    """Alike."""

    @property
    def card(self) -> Card:
        return card_of(self.device, self.profiles)

    @property
    def time_sliced(self) -> bool:
        return not self.claimed and self.mode in ("", Mode.SAME_SIZE, Mode.MIXED_SIZE)


class Taken(msgspec.Struct, frozen=True):
    """A shape that has taken one more vGPU."""

    shape: Shape
    how: How
    profile: str
    start: int | None
    rank: Score
    """How, and what the policy says of the place."""


resource_of = lru_cache(maxsize=4096)(vgpu_resource_name)


def shape_of(gpu: Gpu) -> Shape:
    """A GPU of a fleet as it is."""
    kept: list[Carried] = []
    free: list[Carried] = []
    for vgpu in gpu.vgpus:
        stays = vgpu.holder or vgpu.unhealthy
        (kept if stays else free).append(_carried(vgpu.profile, vgpu.slot))
    return Shape(
        gpu.device,
        gpu.profiles,
        gpu.mode,
        gpu.functions,
        bool(gpu.claimed),
        gpus.in_order(kept),
        gpus.in_order(free),
    )


_carried = lru_cache(maxsize=4096)(Carried)
"""A fleet has few different ones, and many of each."""


def rank(*taken: Taken) -> Score:
    """Of one or of several together; the least is preferred: what exists, then what costs least."""
    if len(taken) == 1:
        return taken[0].rank
    how = max((one.how for one in taken), default=How.EXISTS)
    return how, *gpus.total(one.rank[1:] for one in taken)


@lru_cache(maxsize=65536)
def take(shape: Shape, resource: str) -> Taken | None:
    """One more vGPU of a resource on a GPU; None where it has no room for it."""
    if shape.claimed:
        return None
    of_resource = [one for one in shape.free if resource_of(one.profile) == resource]
    if of_resource:
        others = tuple(one for one in shape.free if one not in of_resource)
        (index,), _ = gpus.best(_packed(shape), shape.kept + others, of_resource)
        one = of_resource.pop(index)
        return _taken(shape, one, others, (*others, *of_resource), How.EXISTS)
    profile = offered(shape, resource)
    if not profile:
        return None
    mixed = shape.mode == Mode.MIXED_SIZE
    for free, how in ((shape.free, How.MADE), ((), How.MADE_IN_PLACE_OF_FREE)):
        there = shape.kept + free
        if shape.functions and len(there) >= shape.functions:
            continue
        placed = arrange(shape.card, there, {profile: 1}, mixed=mixed)
        if placed is not None:
            return _taken(shape, Carried(profile, placed[0].start), free, free, how)
    return None


def offered(shape: Shape, resource: str) -> str:
    """The profile that the GPU can be given for a resource; empty: none."""
    if not shape.time_sliced:
        return ""
    return next((name for name in shape.card.kinds if resource_of(name) == resource), "")


@lru_cache(maxsize=65536)
def room_for(shape: Shape, resource: str) -> int:
    """How many vGPUs of one resource VMs could get there, if it were the only one."""
    ready = sum(resource_of(one.profile) == resource for one in shape.free)
    profile = offered(shape, resource)
    if shape.claimed or not profile:
        return 0 if shape.claimed else ready
    mixed = shape.mode == Mode.MIXED_SIZE
    count = most(shape.card, shape.kept, profile, mixed=mixed)
    if shape.functions:
        count = min(count, max(0, shape.functions - len(shape.kept)))
    return max(ready, count)


def _packed(shape: Shape) -> gpus.Gpu:
    return gpus.Gpu(shape.device, shape.profiles, shape.mode == Mode.MIXED_SIZE)


def _taken(
    shape: Shape,
    one: Carried,
    nearby: tuple[Carried, ...],
    free: tuple[Carried, ...],
    how: How,
) -> Taken:
    """`nearby`: free ones that count as room that is taken."""
    there = gpus.in_order((*shape.kept, *nearby))
    kept = gpus.in_order((*shape.kept, one))
    after = msgspec.structs.replace(shape, kept=kept, free=gpus.in_order(free))
    cost = gpus.cost(_packed(shape), there, one)
    return Taken(after, how, one.profile, one.start, (how, *cost))
