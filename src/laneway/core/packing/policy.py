"""Which GPU a new vGPU goes to, and where on it.

A policy gives each spot a score, and the lowest wins; among equals the first GPU and the lowest
slot. `aware` is the one that Laneway decides by. It looks at the places of all sizes that the new
vGPU would be in the way of: a free one counts its GiB, one that others are in the way of too counts
a quarter of that for each of them. The least wins. So a vGPU that fills a gap costs little, and one
that opens an empty GPU or breaks the only place of a large size costs much. And vGPUs gather where
several must go before a large place is free, so that other places soon are.

It need not know what is requested and for how long: weighing sizes by how often they are requested
served no more in simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from laneway.core.packing.room import Board, Room, bits_of, filled, gib, lowest_bit, spots

_LATER = 1 / 4
"""What a place is worth with a vGPU in its way, as a share of its worth without. From 0.15 to 0.4
all serve as much; 0 counts only what is free now, and serves less."""

Score = tuple[float, ...]
Policy = Callable[[Board, Room, Room], Score]
"""Of a board, and its room before and after."""


class Choice(NamedTuple):
    """Where a vGPU goes."""

    gpu: int
    """Index of the GPU."""
    start: int | None
    after: Room


def breadth(board: Board, before: Room, _after: Room) -> Score:
    """The emptiest GPU first."""
    return (filled(board, before),)


def depth(board: Board, before: Room, _after: Room) -> Score:
    """The fullest GPU that has room first."""
    return (-filled(board, before),)


def aware(board: Board, before: Room, after: Room) -> Score:
    """Where the places that are lost are worth least; among equals the fullest GPU."""
    return loss(board, before, after), -filled(board, before)


def loss(board: Board, before: Room, after: Room) -> float:
    """What the places that one more vGPU takes or breaks are worth: GiB."""
    if not board.mixed:
        return _loss_of_number(board, before, after)
    lost = 0.0
    for slots, begin, worth in _across(board, before.used ^ after.used):
        inside = (before.first & slots).bit_count()
        across_begin = before.used & begin and not before.first & begin
        lost += worth * _LATER ** (inside + bool(across_begin))
    return lost


def _loss_of_number(board: Board, before: Room, after: Room) -> float:
    """In same-size mode: the first vGPU takes the GPU from all other sizes."""
    return sum(
        gib(kind) * (1 if size == after.size else kind.maximum)
        for size, kind in enumerate(board.kinds)
        if size == after.size or not before.number
    )


@lru_cache(maxsize=1 << 12)
def _across(board: Board, bits: int) -> tuple[tuple[int, int, float], ...]:
    """Places of all sizes that need some of these slots: their slots, the first, and GiB."""
    places = ((bits_of(kind, start), gib(kind)) for kind in board.kinds for start in kind.ids)
    return tuple((slots, lowest_bit(slots), size) for slots, size in places if slots & bits)


def choose(
    board: Board, rooms: Sequence[Room], size: int, policy: Policy, *, lowest: bool
) -> Choice | None:
    """Where a vGPU of this size goes among GPUs of one board; None where no GPU has room.

    `lowest`: the driver takes the lowest free slot, and only the GPU can be chosen.
    """
    best: tuple[Score, Choice] | None = None
    for gpu, room in enumerate(rooms):
        for start, after in spots(board, room, size):
            score = policy(board, room, after)
            if best is None or score < best[0]:
                best = score, Choice(gpu, start, after)
            if lowest:
                break
    return None if best is None else best[1]
