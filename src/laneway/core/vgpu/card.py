"""A board as far as room on it matters: its memory, and where vGPUs of each profile can sit.

In mixed-size mode a vGPU takes a run of memory slots, one GiB each, that begins at one of a few
places which the driver has fixed for its size. The catalogue has the places of the boards that it
knows. For a board that is new to it they follow from the rules: before Blackwell by halving the
memory again and again, since then by dividing it evenly.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import msgspec

from laneway.core.vgpu.profiles import MIB_PER_GIB, Profile, profile, profiles_on

MOST_TIME_SLICED = 32
"""vGPUs on one card, whatever their size."""

_SMALLEST_PART = 16
"""Halving stops at one sixteenth of the card."""

_BLACKWELL = 0x2900
"""The first PCI device id of cards that divide evenly."""


class Kind(msgspec.Struct, frozen=True):
    """A profile as far as room matters."""

    name: str
    framebuffer_mib: int
    slots: int
    maximum: int
    """In same-size mode."""
    ids: tuple[int, ...]
    """First slots of its places in mixed-size mode, ascending."""


class Card(msgspec.Struct, frozen=True):
    """The profiles of a board by name, and its memory."""

    region: int
    """Slots."""
    kinds: dict[str, Kind]


# ------------------------------------------------------------------------------ places by rule


def halved_ids(region: int, slots: int, maximum: int) -> tuple[int, ...]:
    """Places before Blackwell. The maximum falls to a power of two."""
    power = 1 << (maximum.bit_length() - 1)
    found: set[int] = set()
    parts = [(0, region, True)]
    count = 1
    while count <= _SMALLEST_PART:
        for low, high, left in parts:
            if 2 * count == maximum:
                found |= {low, high - slots}
            elif (power < maximum and count == power) or count == maximum == 1:
                found.add(low if left else high - slots)
        parts = [
            half
            for low, high, _ in parts
            for half in ((low, (low + high) // 2, True), ((low + high) // 2, high, False))
        ]
        count *= 2
    return tuple(sorted(found))


def even_ids(region: int, maximum: int) -> tuple[int, ...]:
    """Places since Blackwell, also inside a GPU instance."""
    return tuple(region * index // maximum for index in range(maximum))


# ------------------------------------------------------------------------------------- the card


def card_of(device: str, names: Iterable[str] = ()) -> Card:
    """A board by PCI device id (`25b6`), together with the profiles that its driver lists.

    What the driver lists wins: its profiles are part of the card whether or not the catalogue has
    them, and where it lists any of a board, other boards with the same id are left out.
    """
    return _card_of(device, frozenset(names))


@lru_cache(maxsize=64)
def _card_of(device: str, names: frozenset[str]) -> Card:
    listed = [one for one in map(profile, sorted(names)) if one is not None]
    boards = {one.board for one in listed}
    known = [one for one in profiles_on(device) if not boards or one.board in boards]
    every = {one.name: one for one in (*known, *listed) if not one.mig_backed}
    region = max((one.framebuffer_mib for one in every.values()), default=0) // MIB_PER_GIB
    even = _is_blackwell(device)
    kinds = {name: _kind(one, region, even=even) for name, one in every.items()}
    return Card(region, kinds)


def _is_blackwell(device: str) -> bool:
    try:
        return int(device, 16) >= _BLACKWELL
    except ValueError:
        return False


def _kind(one: Profile, region: int, *, even: bool) -> Kind:
    slots = max(1, -(-one.framebuffer_mib // MIB_PER_GIB))
    maximum = one.maximum or max(1, min(MOST_TIME_SLICED, region // slots))
    if even and maximum > 1:
        # Where fewer are supported than the size allows, each takes an equal share all the same:
        # 2 GB on a card of 96 GB take three slots.
        slots = max(slots, region // maximum if maximum == MOST_TIME_SLICED else slots)
    rule = even_ids(region, maximum) if even else halved_ids(region, slots, maximum)
    return Kind(one.name, one.framebuffer_mib, slots, maximum, one.ids or rule)
