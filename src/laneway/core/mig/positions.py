"""Where GPU instances are on a card, and where more of them could be: for people, by eighths.

The objects of the API have the ids of GPU instances and not their places. Ids number the whole card
(0), its halves (1, 2), its quarters (3 to 6) and its eighths, so the id and the size of an instance
tell where it is. That holds for every card that is known; where the places that follow from it are
none that the profiles have, or overlap, the answer is that they are not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from laneway.core.gpu.modes import GpuInstanceProfile
from laneway.core.mig.profiles import compute_slices, expected_profiles, memory_gib

EIGHTHS = 8


class Position(NamedTuple):
    """A run of memory, in eighths of the card."""

    profile: str
    start: int
    size: int

    @property
    def eighths(self) -> range:
        return range(self.start, self.start + self.size)


def positions(device: str, instances: Iterable[tuple[int, str]]) -> dict[int, Position] | None:
    """GPU instances, given by id and profile, by id; None where it is not known.

    `device`: the PCI device id of the card.
    """
    found: dict[int, Position] = {}
    taken: set[int] = set()
    for number, profile in instances:
        one = geometry(device, profile)
        if one is None:
            return None
        start = (number - (EIGHTHS // one.size - 1)) * one.size
        place = Position(profile, start, one.size)
        if start not in one.starts or taken.intersection(place.eighths):
            return None
        taken.update(place.eighths)
        found[number] = place
    return found


def free_positions(
    device: str, there: Iterable[Position], available: Mapping[str, int]
) -> tuple[Position, ...]:
    """Where one more instance could be, in the order of `available`.

    `available`: how many more of each profile the driver can make now.
    """
    taken = {eighth for one in there for eighth in one.eighths}
    return tuple(
        place
        for name, count in available.items()
        if count > 0 and (one := geometry(device, name)) is not None
        for start in one.starts
        for place in [Position(name, start, one.size)]
        if not taken.intersection(place.eighths)
    )


def geometry(device: str, profile: str) -> GpuInstanceProfile | None:
    """Where a profile can begin: as the catalogue has it, or another with other engines only.

    Starts and size are in eighths of the card. None: not known.
    """
    every = expected_profiles(device)
    size = compute_slices(profile), memory_gib(profile)
    alike = (one for one in every if (compute_slices(one.name), memory_gib(one.name)) == size)
    exact = (one for one in every if one.name == profile)
    # Of those with media engines there are fewer than there are places.
    return next(exact, None) or max(alike, key=lambda one: len(one.starts), default=None)
