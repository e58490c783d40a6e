"""What occupies the memory of a GPU, and what is free: for people, to scale.

Where the driver tells no places, as in same-size mode and for GPU instances, the parts stand in the
order of their addresses or ids, and `placed` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from laneway.core.mig.profiles import memory_gib
from laneway.core.vgpu.card import Card
from laneway.core.vgpu.profiles import MIB_PER_GIB, framebuffer_mib


class Vgpu(NamedTuple):
    """A vGPU of the GPU, as objects report it."""

    address: str
    profile: str
    slot: int | None = None
    """Its first memory slot, where the driver tells it."""
    instance: int | None = None
    """The GPU instance that it is in."""


class Part(msgspec.Struct, frozen=True):
    """A run of memory."""

    mib: int
    name: str = ""
    """The profile of a vGPU or of a GPU instance; empty: free."""
    addresses: tuple[str, ...] = ()
    """The functions of the vGPUs in it."""


class Occupancy(msgspec.Struct, frozen=True):
    """The memory of a GPU, part by part."""

    mib: int
    parts: tuple[Part, ...]
    placed: bool
    """Whether the parts are where the driver put them."""

    @property
    def allocated_mib(self) -> int:
        return sum(part.mib for part in self.parts if part.name)


def time_sliced(card: Card, vgpus: Iterable[Vgpu]) -> Occupancy | None:
    """A GPU whose vGPUs share it by time; None where the memory of the GPU is not known."""
    there = list(vgpus)
    if not card.region or not all(framebuffer_mib(one.profile) for one in there):
        return None
    whole = card.region * MIB_PER_GIB
    placed = bool(there) and all(one.slot is not None for one in there)
    parts: list[Part] = []
    end = 0
    for one in sorted(there, key=lambda one: (one.slot or 0, one.address)):
        start = (one.slot or 0) * MIB_PER_GIB if placed else end
        if start > end:
            parts.append(Part(start - end))
        parts.append(Part(framebuffer_mib(one.profile), one.profile, (one.address,)))
        end = start + framebuffer_mib(one.profile)
    return _whole(whole, parts, end, placed=placed)


def partitioned(
    card: Card, instances: Iterable[tuple[int, str]], vgpus: Iterable[Vgpu]
) -> Occupancy | None:
    """A GPU in MIG mode, by the ids and profiles of its GPU instances; None as above."""
    there, parts = list(vgpus), []
    for number, profile in sorted(instances):
        mib = memory_gib(profile) * MIB_PER_GIB
        inside = tuple(one.address for one in there if one.instance == number)
        parts.append(Part(mib, profile, inside))
    if not card.region or not all(part.mib for part in parts):
        return None
    end = sum(part.mib for part in parts)
    return _whole(card.region * MIB_PER_GIB, parts, end, placed=False)


def _whole(whole: int, parts: list[Part], end: int, *, placed: bool) -> Occupancy:
    rest = [Part(whole - end)] if end < whole else []
    return Occupancy(max(whole, end), (*parts, *rest), placed)
