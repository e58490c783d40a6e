"""In which order to make vGPUs on a GPU, so that the most room is left for others.

In mixed-size mode the order decides where the driver puts each. Largest first is nearly always
best, but not where sizes do not divide each other, as on the boards since Blackwell. So all orders
are tried that make one size after the other, and the policy compares what they lead to; among
equals the one that makes the larger size first. On random GPUs one in a hundred other orders would
leave more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice, permutations

from laneway.core.packing.gpus import board_of_card, room_on, total
from laneway.core.packing.policy import Score, aware
from laneway.core.packing.room import Board, Room, spots
from laneway.core.vgpu.card import Card
from laneway.core.vgpu.placement import Carried, Placed, arrange

_TRIED = 120
"""Orders, those of five sizes."""


def best_order(
    card: Card, carried: Iterable[Carried], wanted: Mapping[str, int], *, mixed: bool
) -> tuple[Placed, ...] | None:
    """The same question as `arrange` answers, and the best of its answers."""
    there = tuple(carried)
    found = arrange(card, there, wanted, mixed=mixed)
    if not mixed or found is None:
        return found
    board = board_of_card(card, mixed=True)
    before = room_on(board, card.kinds, there)
    names: dict[int, list[str]] = {}
    for name, count in sorted(wanted.items()):
        size = board.size_of(card.kinds[name])
        names.setdefault(size, []).extend([name] * count)
    best: tuple[Score, tuple[Placed, ...]] | None = None
    for order in islice(permutations(sorted(names, reverse=True)), _TRIED):
        made = _made(board, before, [(size, name) for size in order for name in names[size]])
        if made is not None and (best is None or made[0] < best[0]):
            best = made
    return found if best is None else best[1]


def _made(
    board: Board, room: Room, order: Iterable[tuple[int, str]]
) -> tuple[Score, tuple[Placed, ...]] | None:
    """What an order costs, and what the driver makes of it; None where one finds no place."""
    scores: list[Score] = []
    placed: list[Placed] = []
    for size, name in order:
        spot = next(spots(board, room, size), None)
        if spot is None:
            return None
        scores.append(aware(board, room, spot.after))
        room = spot.after
        placed.append(Placed(name, spot.start))
    return total(scores), tuple(placed)
