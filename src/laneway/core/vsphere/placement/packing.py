"""Putting vGPUs on boards: every way is tried before they count as not fitting.

Most hosts of a fleet are alike, so what was worked out for one is kept for the next. Where there
are too many ways to try, which takes an odd mixture of many vGPUs, a search ends without a result
and what was asked for counts as not fitting: nobody's request may hold up everybody else's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from laneway.core.vsphere.placement.vgpu_fit import Load, Size, most, put

_TRIES = 2_000
"""So many times a vGPU is put on a board, beside once for each."""


class Place(NamedTuple):
    """A board as far as it matters here."""

    limit: Load
    mode: str
    sizes: tuple[Size | None, ...]
    """What a vGPU of each profile that is asked for takes; None: the board does not support it."""


class Packed(NamedTuple):
    """vGPUs on boards."""

    boards: tuple[int, ...]
    """The board of each vGPU, in the order of the profiles."""
    loads: tuple[Load, ...]
    """What the boards carry then."""


@lru_cache(maxsize=1024)
def pack(
    places: tuple[Place, ...], loads: tuple[Load, ...], counts: tuple[int, ...]
) -> Packed | None:
    """Boards for so many vGPUs of each profile beside what the boards carry, or None.

    Those profiles should come first that take most, as they fit into the fewest places.
    """
    if any(_alone(places, loads, profile) < count for profile, count in enumerate(counts)):
        return None
    line = [profile for profile, count in enumerate(counts) for _ in range(count)]
    # Boards that are alike and carry alike are one and the same here.
    kinds = [places.index(place) for place in places]
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
        for board in _order(places, loads):
            size = places[board].sizes[line[at]]
            alike = (kinds[board], loads[board])
            if size is None or alike in tried:
                continue
            tried.add(alike)
            if not tries:
                return None
            tries -= 1
            load = put(places[board].limit, places[board].mode, loads[board], size)
            if load is not None:
                chosen.append(board)
                found = go((*loads[:board], load, *loads[board + 1 :]))
                if found is not None:
                    return found
                chosen.pop()
        failed.add((at, situation))
        return None

    after = go(loads)
    return None if after is None else Packed(tuple(chosen), after)


def _alone(places: tuple[Place, ...], loads: tuple[Load, ...], profile: int) -> int:
    """How many of one profile would fit if nothing else were asked for."""
    return sum(
        most(place.limit, place.mode, load, size)
        for place, load in zip(places, loads, strict=True)
        if (size := place.sizes[profile]) is not None
    )


def _order(places: tuple[Place, ...], loads: tuple[Load, ...]) -> list[int]:
    """Boards that carry something first, and of these the one with the least left."""
    return sorted(
        range(len(loads)),
        key=lambda at: (not loads[at].vgpus, places[at].limit.mib - loads[at].mib),
    )
