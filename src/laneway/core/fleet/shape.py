"""A GPU as far as room on it matters, as a value: equal GPUs are one, which is looked at once.

What takes room there is told in one of two ways: by memory slots where vGPUs share the GPU by time
(`sliced`), by GPU instances where they are in those (`backed`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from functools import lru_cache

import msgspec

from laneway.core.fleet.model import Gpu
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, Mode
from laneway.core.names import vgpu_resource_name
from laneway.core.packing import gpus
from laneway.core.packing.policy import Score
from laneway.core.vgpu.card import Card, card_of
from laneway.core.vgpu.placement import Carried


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
    """In the mode MIGBacked: as they lie, without their numbers."""
    instance_profiles: tuple[GpuInstanceProfile, ...] = ()
    """In the mode MIGBacked: the kinds of its board; empty: its instances are not all known."""

    @property
    def card(self) -> Card:
        return card_of(self.device, self.profiles)

    @property
    def mixed(self) -> bool:
        return self.mode == Mode.MIXED_SIZE

    @property
    def packed(self) -> gpus.Gpu:
        return gpus.Gpu(self.device, self.profiles, self.mixed)

    def full(self, there: int) -> bool:
        """Whether so many vGPUs are all that its functions can carry."""
        return bool(self.functions) and there >= self.functions


class Taken(msgspec.Struct, frozen=True):
    """A shape that has taken one more vGPU."""

    shape: Shape
    how: How
    profile: str
    start: int | None
    rank: Score
    """How, and what the policy says of the place."""


resource_of = lru_cache(maxsize=4096)(vgpu_resource_name)
_carried = lru_cache(maxsize=4096)(Carried)
"""A fleet has few different ones, and many of each."""


def shape_of(
    gpu: Gpu,
    starts: Mapping[int | None, int] | None = None,
    instances: tuple[GpuInstance, ...] = (),
    instance_profiles: tuple[GpuInstanceProfile, ...] = (),
) -> Shape:
    """A GPU of a fleet as it is.

    `starts`: of GPU instances by id, where its vGPUs are in those.
    """
    kept: list[Carried] = []
    free: list[Carried] = []
    for vgpu in gpu.vgpus:
        start = vgpu.slot if starts is None else starts.get(vgpu.instance)
        stays = vgpu.holder or vgpu.unhealthy
        (kept if stays else free).append(_carried(vgpu.profile, start))
    return Shape(
        gpu.device,
        gpu.profiles,
        gpu.mode,
        gpu.functions,
        bool(gpu.claimed),
        gpus.in_order(kept),
        gpus.in_order(free),
        instances,
        instance_profiles,
    )


def taken(
    shape: Shape,
    one: Carried,
    how: How,
    *,
    free: Iterable[Carried],
    nearby: tuple[Carried, ...] = (),
    instances: tuple[GpuInstance, ...] = (),
) -> Taken:
    """One more vGPU. `free`, `instances`: those that there are then.

    `nearby`: free ones that count as room that is taken.
    """
    cost = gpus.cost(shape.packed, gpus.in_order((*shape.kept, *nearby)), one)
    kept, rest = gpus.in_order((*shape.kept, one)), gpus.in_order(free)
    after = msgspec.structs.replace(shape, kept=kept, free=rest, instances=instances)
    return Taken(after, how, one.profile, one.start, (how, *cost))
