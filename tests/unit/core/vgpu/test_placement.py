"""What a time-sliced card takes: the reference results, and the simulated driver as a judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vgpu.card import Card, Kind, card_of
from laneway.core.vgpu.placement import Carried, arrange, shortage
from laneway.sim.dump import Block
from laneway.sim.nvidia import card as simulated
from laneway.sim.nvidia.types import card_types

A2, A10, A40, L40S, H100, H200, RTX_PRO = "25b6", "2236", "2235", "26b9", "2331", "233b", "2bb5"


def named(card: Card, size: str) -> str:
    return next(name for name in sorted(card.kinds) if name.endswith(f"-{size}"))


def starts(card: Card, order: list[str]) -> list[int | None] | None:
    """Where the driver puts profiles that are made in this order, one after the other."""
    carried: list[Carried] = []
    for size in order:
        placed = arrange(card, carried, {named(card, size): 1}, mixed=True)
        if placed is None:
            return None
        carried += [Carried(one.profile, one.start) for one in placed]
    return [one.start for one in carried]


def creatable(card: Card, carried: Iterable[Carried], *, mixed: bool) -> tuple[str, ...]:
    """The profiles of which the driver would make one more now."""
    there = tuple(carried)
    return tuple(
        name for name in sorted(card.kinds) if arrange(card, there, {name: 1}, mixed=mixed)
    )


def capacity(card: Card, carried: Iterable[Carried], name: str, *, mixed: bool) -> int:
    """How many more of one profile fit."""
    found = shortage(card, tuple(carried), {name: 100}, mixed=mixed)
    assert found is not None
    return found[1]


# ------------------------------------------------------------------------------------ capacities


@pytest.mark.parametrize(
    ("device", "sizes", "same", "mixed"),
    [
        (A2, (1, 2, 4, 8, 16), (16, 8, 4, 2, 1), (16, 8, 4, 2, 1)),
        (A10, (1, 2, 3, 4, 6, 8, 12, 24), (24, 12, 8, 6, 4, 3, 2, 1), (16, 8, 8, 4, 4, 2, 2, 1)),
        (
            A40,
            (1, 2, 3, 4, 6, 8, 12, 16, 24, 48),
            (32, 24, 16, 12, 8, 6, 4, 3, 2, 1),
            (30, 16, 16, 8, 8, 4, 4, 2, 2, 1),
        ),
        (
            L40S,
            (1, 2, 3, 4, 6, 8, 12, 16, 24, 48),
            (32, 24, 16, 12, 8, 6, 4, 3, 2, 1),
            (16, 16, 16, 8, 8, 4, 4, 2, 2, 1),
        ),
        (
            RTX_PRO,
            (3, 4, 6, 8, 12, 16, 24, 32, 48, 96),
            (32, 24, 16, 12, 8, 6, 4, 3, 2, 1),
            (32, 24, 16, 12, 8, 6, 4, 3, 2, 1),
        ),
    ],
)
def test_an_empty_card_has_room_as_published(
    device: str, sizes: tuple[int, ...], same: tuple[int, ...], mixed: tuple[int, ...]
) -> None:
    card = card_of(device)
    for counts, mode in ((same, False), (mixed, True)):
        names = (named(card, f"{size}Q") for size in sizes)
        assert tuple(capacity(card, (), name, mixed=mode) for name in names) == counts


def test_an_h100_has_room_as_published() -> None:
    card = card_of(H100)
    for size, same, mixed in (
        (4, 20, 16),
        (5, 16, 16),
        (8, 10, 8),
        (10, 8, 8),
        (16, 5, 4),
        (20, 4, 4),
        (40, 2, 2),
        (80, 1, 1),
    ):
        assert capacity(card, (), named(card, f"{size}C"), mixed=False) == same
        assert capacity(card, (), named(card, f"{size}C"), mixed=True) == mixed


# ------------------------------------------------------------------------------------- same size


def test_the_first_vgpu_decides_the_size_of_all() -> None:
    card = card_of(A2, ["NVIDIA A2-16Q"])
    carried = [Carried("NVIDIA A2-4Q")]

    assert creatable(card, carried, mixed=False) == ("NVIDIA A2-4A", "NVIDIA A2-4C", "NVIDIA A2-4Q")
    assert creatable(card, carried * 4, mixed=False) == ()
    assert capacity(card, carried, "NVIDIA A2-4C", mixed=False) == 3


def test_each_profile_is_held_to_its_own_maximum_when_it_is_made() -> None:
    few, many = Kind("few", 4096, 4, 2, ()), Kind("many", 4096, 4, 4, ())
    card = Card(16, {"few": few, "many": many})

    placed = arrange(card, (), {"many": 2, "few": 2}, mixed=False)

    assert placed is not None
    assert [one.profile for one in placed] == ["few", "few", "many", "many"]
    assert creatable(card, [Carried("few"), Carried("few")], mixed=False) == ("many",)
    assert arrange(card, [Carried("many")], {"few": 2}, mixed=False) is None


# ------------------------------------------------------------------------------------ mixed size


def test_a_large_vgpu_leaves_places_for_smaller_ones() -> None:
    assert starts(card_of(A40), ["24Q", "8Q", "16Q"]) == [0, 24, 32]


def test_a_small_vgpu_spoils_the_places_that_begin_with_it() -> None:
    card = card_of(A40)
    carried = [Carried(named(card, "1Q"), 0)]
    open_now = creatable(card, carried, mixed=True)

    assert named(card, "48Q") not in open_now
    for size, start in (("24Q", 24), ("16Q", 32), ("8Q", 16)):
        placed = arrange(card, carried, {named(card, size): 1}, mixed=True)
        assert placed is not None
        assert placed[0].start == start


def test_gaps_that_no_place_begins_in_stay_free() -> None:
    card = card_of(H100)
    assert starts(card, ["8C", "16C"]) == [0, 24]
    assert capacity(card, [Carried(named(card, "8C"), 0)], named(card, "16C"), mixed=True) == 3


def test_a_blackwell_card_is_filled_to_the_last_slot() -> None:
    card = card_of(RTX_PRO)
    assert starts(card, ["32Q", "32Q", "32Q"]) == [0, 32, 64]
    assert starts(card, ["48Q", "32Q"]) == [0, 64]
    assert starts(card, ["48Q", "32Q", "32Q"]) is None


def test_the_order_is_chosen_so_that_everything_fits() -> None:
    card = card_of(A40)
    small, large, half = named(card, "1Q"), named(card, "16Q"), named(card, "24Q")
    assert starts(card, ["1Q", "24Q", "16Q"]) is None

    placed = arrange(card, (), {small: 1, large: 1, half: 1}, mixed=True)

    assert placed is not None
    assert [(one.profile, one.start) for one in placed] == [(half, 0), (large, 32), (small, 24)]


def test_a_card_takes_32_vgpus_also_where_there_are_more_places() -> None:
    card = Card(40, {"one": Kind("one", 1024, 1, 32, tuple(range(40)))})
    assert arrange(card, (), {"one": 32}, mixed=True)
    assert arrange(card, (), {"one": 33}, mixed=True) is None
    assert capacity(card, [Carried("one", 7)], "one", mixed=True) == 31


def test_a_vgpu_without_a_reported_place_counts_at_the_lowest() -> None:
    card = card_of(A40)
    reported = [Carried(named(card, "24Q"), 0)]
    unreported = [Carried(named(card, "24Q"))]
    assert creatable(card, reported, mixed=True) == creatable(card, unreported, mixed=True)
    for name in card.kinds:
        assert capacity(card, reported, name, mixed=True) == capacity(
            card, unreported, name, mixed=True
        )


def test_what_does_not_fit_is_named_with_what_would() -> None:
    card = card_of(A40)
    desired = {named(card, "24Q"): 1, named(card, "8Q"): 4}
    assert shortage(card, (), desired, mixed=True) == (named(card, "8Q"), 2)
    assert shortage(card, (), {named(card, "8Q"): 7}, mixed=False) == (named(card, "8Q"), 6)
    assert shortage(card, (), {named(card, "8Q"): 6}, mixed=False) is None


# ---------------------------------------------------------------------------------------- laws

DEVICES = st.sampled_from([A2, A10, A40, L40S, H100, H200, RTX_PRO])


@st.composite
def desired_states(draw: st.DrawFn) -> tuple[Card, dict[str, int]]:
    card = card_of(draw(DEVICES))
    names = draw(st.lists(st.sampled_from(sorted(card.kinds)), min_size=1, max_size=5, unique=True))
    return card, {name: draw(st.integers(1, 6)) for name in names}


@given(desired_states(), st.booleans())
def test_every_step_of_an_order_is_one_that_the_driver_takes(
    desired: tuple[Card, dict[str, int]], mixed: bool
) -> None:
    card, wanted = desired
    placed = arrange(card, (), wanted, mixed=mixed)
    if placed is None:
        return
    assert Counter(one.profile for one in placed) == Counter(wanted)
    carried: list[Carried] = []
    used: set[int] = set()
    for one in placed:
        alone = arrange(card, carried, {one.profile: 1}, mixed=mixed)
        assert alone is not None
        assert alone[0].start == one.start
        if one.start is not None:
            kind = card.kinds[one.profile]
            slots = set(range(one.start, one.start + kind.slots))
            assert one.start in kind.ids
            assert not slots & used
            assert max(slots) < card.region
            used |= slots
        carried.append(Carried(one.profile, one.start))


@given(desired_states(), st.data())
def test_any_order_in_which_the_driver_takes_all_means_that_there_is_one(
    desired: tuple[Card, dict[str, int]], data: st.DataObject
) -> None:
    card, wanted = desired
    order = data.draw(st.permutations([name for name in wanted for _ in range(wanted[name])]))
    carried: list[Carried] = []
    for name in order:
        placed = arrange(card, carried, {name: 1}, mixed=True)
        if placed is None:
            return
        carried.append(Carried(name, placed[0].start))
    assert arrange(card, (), wanted, mixed=True) is not None


@given(desired_states())
def test_a_shortage_is_reported_exactly_when_something_does_not_fit(
    desired: tuple[Card, dict[str, int]],
) -> None:
    card, wanted = desired
    for mixed in (False, True):
        short = shortage(card, (), wanted, mixed=mixed)
        assert (short is None) == (arrange(card, (), wanted, mixed=mixed) is not None)
        if short is not None:
            assert 0 <= short[1] < wanted[short[0]]


@given(st.sampled_from([A2, A10, A40, L40S, RTX_PRO]), st.booleans(), st.data())
def test_the_simulated_driver_agrees_after_every_change(
    device: str, mixed: bool, data: st.DataObject
) -> None:
    gpu = Block(path="/devices/gpu", properties={}, attributes={"device": f"0x{device}".encode()})
    driver = simulated.Card(card_types(gpu, ()))
    known = {kind.name for kind in driver.types.values()}
    card = card_of(device, (kind.name for kind in driver.types.values() if not kind.flags))
    if mixed:
        driver.set_mixed(enabled=True)
    there: dict[str, Carried] = {}
    for number in range(data.draw(st.integers(1, 12))):
        offered = driver.creatable("next")
        expected = known.intersection(creatable(card, there.values(), mixed=mixed))
        assert {kind.name for kind in offered} == expected
        if there and (not offered or data.draw(st.integers(0, 3)) == 0):
            gone = data.draw(st.sampled_from(sorted(there)))
            driver.remove(gone)
            del there[gone]
        elif offered:
            kind = data.draw(st.sampled_from(offered))
            assert driver.create(str(number), kind)
            placed = arrange(card, there.values(), {kind.name: 1}, mixed=mixed)
            assert placed is not None
            there[str(number)] = Carried(kind.name, placed[0].start)
            if mixed:
                made = driver.vgpu(str(number))
                assert made is not None
                assert made.placement == placed[0].start
