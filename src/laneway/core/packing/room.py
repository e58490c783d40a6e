"""What a GPU has room for, in a form that can be compared millions of times.

A vGPU that comes takes slots in mixed-size mode, and one of a number in same-size mode. Profiles of
one size (the series differ) take the same room.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from laneway.core.vgpu.card import MOST_TIME_SLICED, Card, Kind


class Board(msgspec.Struct, frozen=True, eq=False):
    """A card in one mode, with one profile per size, the smallest first."""

    region: int
    kinds: tuple[Kind, ...]
    mixed: bool

    def size_of(self, kind: Kind) -> int:
        """The index of the size of a profile of the card."""
        sizes = (one.framebuffer_mib for one in self.kinds)
        return next(at for at, size in enumerate(sizes) if size == kind.framebuffer_mib)


class Room(NamedTuple):
    """What is taken of a GPU."""

    used: int = 0
    """Slots, as bits; in mixed-size mode."""
    first: int = 0
    """Of these, the first slot of each vGPU."""
    number: int = 0
    """vGPUs."""
    size: int | None = None
    """Index of the size of all vGPUs in same-size mode; None while there are none."""


class Spot(NamedTuple):
    """Where one more vGPU can go on a GPU."""

    start: int | None
    """Its first slot; None in same-size mode, where it does not matter."""
    after: Room


def board_of(card: Card, *, mixed: bool) -> Board:
    """Compared by identity: keep it."""
    sizes = {kind.framebuffer_mib: kind for _, kind in sorted(card.kinds.items(), reverse=True)}
    kinds = tuple(kind for _, kind in sorted(sizes.items()))
    return Board(card.region, kinds, mixed)


def spots(board: Board, room: Room, size: int) -> Iterator[Spot]:
    """Every place where a vGPU of this size can go, the one that the driver takes first."""
    kind = board.kinds[size]
    if not board.mixed:
        if room.size in (None, size) and room.number < kind.maximum:
            yield Spot(None, Room(number=room.number + 1, size=size))
    elif room.number < MOST_TIME_SLICED:
        for start in kind.ids:
            bits = bits_of(kind, start)
            if not bits & room.used:
                yield Spot(start, with_one(room, bits))


def with_one(room: Room, bits: int) -> Room:
    """The room once a vGPU has taken these slots, which are free."""
    return Room(room.used | bits, room.first | lowest_bit(bits), room.number + 1)


def without(board: Board, room: Room, size: int, start: int | None) -> Room:
    """The room once such a vGPU is gone."""
    count = room.number - 1
    if start is None:
        return Room(number=count, size=size if count else None)
    bits = bits_of(board.kinds[size], start)
    return Room(room.used & ~bits, room.first & ~lowest_bit(bits), count)


def bits_of(kind: Kind, start: int) -> int:
    """The slots that a vGPU takes, as bits."""
    return ((1 << kind.slots) - 1) << start


def lowest_bit(bits: int) -> int:
    """The lowest of these."""
    return bits & -bits


def gib(kind: Kind) -> float:
    """Its framebuffer."""
    return kind.framebuffer_mib / 1024


def filled(board: Board, room: Room) -> float:
    """How many GiB are taken."""
    if board.mixed:
        return room.used.bit_count()
    return 0 if room.size is None else room.number * gib(board.kinds[room.size])
