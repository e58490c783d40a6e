"""Which GPU a new vGPU goes to, and where on it.

A policy gives each spot a score, and the lowest wins; among equals the first GPU and the lowest
slot. `aware` is the one that Laneway decides by: it takes the spot after which the least room is
lost, counted in GiB over all sizes that the board has. A vGPU that fills a gap costs little, one
that opens an empty GPU or breaks the only place of a large size costs much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from laneway.core.packing.room import Board, Room, filled, gib, left, spots

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
    """Where the least room is lost over all sizes; among equals the fullest GPU."""
    return loss(board, before, after), -filled(board, before)


def loss(board: Board, before: Room, after: Room) -> float:
    """How much less a GPU takes than before: GiB, summed over what it takes of each size alone."""
    pairs = zip(board.kinds, left(board, before), left(board, after), strict=True)
    return sum(gib(kind) * (had - has) for kind, had, has in pairs)


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
