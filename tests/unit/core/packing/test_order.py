"""The order in which vGPUs are made: all fit, and no order by size leaves more room."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from laneway.core.packing.order import best_order
from laneway.core.packing.policy import loss
from laneway.core.packing.room import Room, board_of, spots
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.placement import Carried, arrange

CARDS = {device: card_of(device) for device in ("25b6", "26b9", "2bb5")}
BOARDS = {device: board_of(card, mixed=True) for device, card in CARDS.items()}


def made(device: str, room: Room, sizes: list[int]) -> tuple[float, list[int | None]] | None:
    """The room that is lost by an order, and what the driver makes of it."""
    lost, places = 0.0, []
    for size in sizes:
        spot = next(spots(BOARDS[device], room, size), None)
        if spot is None:
            return None
        lost += loss(BOARDS[device], room, spot.after)
        room = spot.after
        places.append(spot.start)
    return lost, places


@st.composite
def questions(draw: st.DrawFn) -> tuple[str, list[Carried], Counter[str]]:
    device = draw(st.sampled_from(sorted(CARDS)))
    board = BOARDS[device]
    room, there = Room(), []
    for size in draw(st.lists(st.integers(0, len(board.kinds) - 1), max_size=3)):
        if found := [*spots(board, room, size)]:
            spot = draw(st.sampled_from(found))
            room = spot.after
            there.append(Carried(board.kinds[size].name, spot.start))
    names = st.sampled_from(sorted(CARDS[device].kinds))
    return device, there, Counter(draw(st.lists(names, max_size=5)))


@given(questions())
def test_all_fit_and_no_order_by_size_leaves_more(
    question: tuple[str, list[Carried], Counter[str]],
) -> None:
    device, there, wanted = question
    card, board = CARDS[device], BOARDS[device]
    order = best_order(card, there, wanted, mixed=True)

    assert (order is None) == (arrange(card, there, wanted, mixed=True) is None)
    if order is None:
        return
    assert Counter(one.profile for one in order) == wanted
    room = Room()
    for one in there:
        size = board.size_of(card.kinds[one.profile])
        room = next(after for start, after in spots(board, room, size) if start == one.start)
    sizes = [board.size_of(card.kinds[one.profile]) for one in order]
    found = made(device, room, sizes)
    assert found is not None
    assert found[1] == [one.start for one in order]
    for by_size in permutations(dict.fromkeys(sizes)):
        other = made(device, room, [size for size in by_size for _ in range(sizes.count(size))])
        if other is not None:
            assert found[0] <= other[0]


def test_without_a_difference_the_largest_come_first() -> None:
    wanted = {"NVIDIA L40S-1Q": 1, "NVIDIA L40S-12Q": 1, "NVIDIA L40S-24Q": 1}
    order = best_order(CARDS["26b9"], (), wanted, mixed=True)
    assert order is not None
    assert [one.profile for one in order] == [*reversed(wanted)]
