"""Where a vGPU goes: against exhaustive search, the driver's rule, and whole mixes of requests."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.packing.churn import Mix, by_policy, churn, fill
from laneway.core.packing.policy import aware, breadth, choose, depth, loss
from laneway.core.packing.room import Board, Room, bits_of, board_of, spots, with_one, without
from laneway.core.vgpu.card import card_of
from laneway.core.vgpu.placement import Carried, arrange

A2, A10, L40S, RTX_PRO = "25b6", "2236", "26b9", "2bb5"
MIXED = {device: board_of(card_of(device), mixed=True) for device in (A2, A10, L40S, RTX_PRO)}
SAME = board_of(card_of(L40S), mixed=False)


def taken(board: Board, draw: st.DrawFn) -> tuple[Room, list[tuple[int, int | None]]]:
    """Some vGPUs that came one after the other, each anywhere it could go."""
    room, there = Room(), []
    for size in draw(st.lists(st.sampled_from(range(len(board.kinds))), max_size=6)):
        if found := [*spots(board, room, size)]:
            spot = draw(st.sampled_from(found))
            room = spot.after
            there.append((size, spot.start))
    return room, there


@st.composite
def gpus(draw: st.DrawFn) -> tuple[Board, Room, list[tuple[int, int | None]]]:
    board = draw(st.sampled_from([*MIXED.values(), SAME]))
    return board, *taken(board, draw)


def worth(board: Board, there: list[tuple[int, int | None]]) -> float:
    """Of what a GPU has room for later: each place counts a quarter for each vGPU in its way."""
    if not board.mixed:
        here = {size for size, _ in there}
        return sum(
            kind.framebuffer_mib / 1024 * (kind.maximum - len(there))
            for size, kind in enumerate(board.kinds)
            if here <= {size}
        )
    taken = [bits_of(board.kinds[size], start) for size, start in there if start is not None]
    return sum(
        kind.framebuffer_mib / 1024 * 0.25 ** sum(bool(one & bits_of(kind, start)) for one in taken)
        for kind in board.kinds
        for start in kind.ids
    )


@given(gpus())
def test_what_a_vgpu_costs_is_what_the_gpu_is_worth_less(
    gpu: tuple[Board, Room, list[tuple[int, int | None]]],
) -> None:
    board, room, there = gpu
    for size in range(len(board.kinds)):
        for start, after in spots(board, room, size):
            less = worth(board, there) - worth(board, [*there, (size, start)])
            # A place that one more is in the way of keeps a quarter of its worth.
            assert loss(board, room, after) == (less / 0.75 if board.mixed else less)


@given(gpus())
def test_the_first_spot_is_the_one_that_the_driver_takes(
    gpu: tuple[Board, Room, list[tuple[int, int | None]]],
) -> None:
    board, room, there = gpu
    device = next((one for one, known in MIXED.items() if known is board), L40S)
    carried = [Carried(board.kinds[size].name, start) for size, start in there]
    for size, kind in enumerate(board.kinds):
        placed = arrange(card_of(device), carried, {kind.name: 1}, mixed=board.mixed)
        spot = next(spots(board, room, size), None)
        assert (spot is None) == (placed is None)
        if spot and placed:
            assert spot.start == placed[0].start


@given(gpus())
def test_a_vgpu_costs_something_and_gives_back_what_it_took(
    gpu: tuple[Board, Room, list[tuple[int, int | None]]],
) -> None:
    board, room, _ = gpu
    for size in range(len(board.kinds)):
        for spot in spots(board, room, size):
            assert loss(board, room, spot.after) > 0
            assert without(board, spot.after, size, spot.start) == room


@given(st.data())
def test_no_other_spot_on_any_gpu_loses_less(data: st.DataObject) -> None:
    board = MIXED[data.draw(st.sampled_from([A2, A10]))]
    rooms = [data.draw(st.composite(lambda draw: taken(board, draw)[0])()) for _ in range(3)]
    size = data.draw(st.sampled_from(range(len(board.kinds))))

    choice = choose(board, rooms, size, aware, lowest=False)

    kind = board.kinds[size]
    possible = [
        loss(board, room, with_one(room, bits_of(kind, start)))
        for room in rooms
        for start in kind.ids
        if not bits_of(kind, start) & room.used
    ]
    if choice is None:
        assert not possible
    else:
        assert loss(board, rooms[choice.gpu], choice.after) == min(possible)


def test_the_only_place_of_a_large_vgpu_is_not_broken() -> None:
    board = MIXED[L40S]
    sizes = [kind.slots for kind in board.kinds]
    half = with_one(Room(), bits_of(board.kinds[sizes.index(24)], 0))
    quarters = with_one(Room(), bits_of(board.kinds[sizes.index(12)], 0))
    choice = choose(board, [half, quarters], sizes.index(12), aware, lowest=True)
    fullest = choose(board, [half, quarters], sizes.index(12), depth, lowest=True)
    assert fullest is not None
    assert fullest.gpu == 0
    assert choice is not None
    assert (choice.gpu, choice.start) == (1, 12)


def test_a_vgpu_goes_where_more_vgpus_must_go_before_a_large_place_is_free() -> None:
    board = MIXED[L40S]
    twelve, six = (
        next(n for n, kind in enumerate(board.kinds) if kind.slots == slots) for slots in (12, 6)
    )
    one, two = Room(), Room()
    one = with_one(one, bits_of(board.kinds[twelve], 0))
    for start in (0, 6):
        two = with_one(two, bits_of(board.kinds[six], start))
    for rooms in ([one, two], [two, one]):
        choice = choose(board, rooms, twelve, aware, lowest=True)
        assert choice is not None
        assert rooms[choice.gpu] == two


# ------------------------------------------------------------------------------ mixes of requests

REQUESTS = Mix(tuple(float(kind.slots in (4, 8, 12, 24)) for kind in MIXED[L40S].kinds), gpus=4)


@pytest.mark.parametrize("lowest", [True, False])
def test_who_packs_serves_more_memory_and_more_large_requests(*, lowest: bool) -> None:
    board = MIXED[L40S]
    served = [
        churn(board, REQUESTS, by_policy(board, one, lowest=lowest), seed=3, arrivals=1500)
        for one in (breadth, depth, aware)
    ]
    assert all(one.memory < two.memory for one, two in pairwise(served))
    assert all(one.large < two.large for one, two in pairwise(served))
    once = [
        sum(fill(board, REQUESTS, by_policy(board, one, lowest=lowest), seed=at) for at in range(9))
        for one in (breadth, aware)
    ]
    assert once[0] < once[1]


def test_a_seed_gives_the_same_result_each_time_and_another_one_another() -> None:
    decide = by_policy(SAME, aware, lowest=True)
    results = [churn(SAME, REQUESTS, decide, seed=seed, arrivals=300) for seed in (1, 1, 2)]
    assert results[0] == results[1] != results[2]


def test_who_asks_for_little_gets_it_all_and_uses_just_that() -> None:
    board = MIXED[RTX_PRO]
    mix = Mix(tuple(float(kind.slots == 8) for kind in board.kinds), gpus=8, load=0.2)
    served = churn(board, mix, by_policy(board, breadth, lowest=True), seed=1, arrivals=4000)
    assert (served.memory, served.requests, served.large) == (1.0, 1.0, 1.0)
    assert served.used == pytest.approx(0.2, rel=0.1)
