"""Putting vGPUs on GPUs: every way is tried before they count as not fitting.

Most hosts of a fleet are alike, so what was worked out for one is kept for the next. Where there
are too many ways to try, which takes an odd mixture of many vGPUs, a search ends without a result
and the request counts as not fitting: no request may delay the others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laneway.core.vsphere.placement.vgpu_fit import Load, Size, add_vgpu, max_vgpus

_TRIES = 2_000
"""The most attempts to put a vGPU on a GPU, in addition to one for each."""


class Place(NamedTuple):
    """A GPU as far as it matters here."""

    limit: Load
    mode: str
    sizes: tuple[Size | None, ...]
    """What a vGPU of each requested profile takes; None: the GPU does not support it."""


class Packed(NamedTuple):
    """vGPUs on GPUs."""

    shared_gpus: tuple[int, ...]
    """The GPU of each vGPU, in the order of the profiles."""
    loads: tuple[Load, ...]
    """What the GPUs carry then."""


@lru_cache(maxsize=1024)
def pack(
    places: tuple[Place, ...], loads: tuple[Load, ...], counts: tuple[int, ...]
) -> Packed | None:
    """Boards for so many vGPUs of each profile in addition to those on the GPUs, or None.

    Those profiles should come first that take most, as they fit into the fewest places.
    """
    if any(_alone(places, loads, profile) < count for profile, count in enumerate(counts)):
        return None
    line = [profile for profile, count in enumerate(counts) for _ in range(count)]
    # Boards that are alike and carry alike are one and the same here.
    kinds = [places.index(choose_host) for choose_host in places]
    failed: set[tuple[int, tuple[tuple[int, Load], ...]]] = set()
    chosen: list[int] = []
    tries = _TRIES + len(line)

    def go(loads: tuple[Load, ...]) -> tuple[Load, ...] | None:
        nonlocal tries
        at = len(chosen)
        if at == len(line):
            return loads
        situation = tuple(sorted(zip(kinds, loads, strict=True)))
        if (at, situation) in failed:
            return None
        tried: set[tuple[int, Load]] = set()
        for gpu in _order(places, loads):
            size = places[gpu].sizes[line[at]]
            alike = (kinds[gpu], loads[gpu])
            if size is None or alike in tried:
                continue
            tried.add(alike)
            if not tries:
                return None
            tries -= 1
            load = add_vgpu(places[gpu].limit, places[gpu].mode, loads[gpu], size)
            if load is not None:
                chosen.append(gpu)
                found = go((*loads[:gpu], load, *loads[gpu + 1 :]))
                if found is not None:
                    return found
                chosen.pop()
        failed.add((at, situation))
        return None

    after = go(loads)
    return None if after is None else Packed(tuple(chosen), after)


def _alone(places: tuple[Place, ...], loads: tuple[Load, ...], profile: int) -> int:
    """How many of one profile would fit if nothing else were requested."""
    return sum(
        max_vgpus(choose_host.limit, choose_host.mode, load, size)
        for choose_host, load in zip(places, loads, strict=True)
        if (size := choose_host.sizes[profile]) is not None
    )


def _order(places: tuple[Place, ...], loads: tuple[Load, ...]) -> list[int]:
    """Boards that carry something first, and of these the one with the least left."""
    return sorted(
        range(len(loads)),
        key=lambda at: (not loads[at].vgpus, places[at].limit.mib - loads[at].mib),
    )
