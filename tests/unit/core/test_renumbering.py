"""Desired states follow their cards, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.core.renumbering import DesiredOn, DesiredState, Move, carry, moves

SLOTS = [PciAddress(0, bus, 0, 0) for bus in (0x08, 0x09, 0x17, 0x30, 0x98)]
CARDS = ["GPU-A", "GPU-B", "GPU-C", "GPU-D"]
FIRST, SECOND, THIRD, FOURTH, _ = SLOTS


def vf(gpu: PciAddress, number: int) -> PciAddress:
    return PciAddress(gpu.domain, gpu.bus, number + 4 >> 3, number + 4 & 7)


def desired_states_of(gpu: PciAddress, card: str, vgpus: Mapping[int, str]) -> list[DesiredState]:
    return [
        DesiredState("SRIOVGPUDevice", gpu, gpu, {"enabled": True}, {"gpuUUID": card}),
        *(
            DesiredState("VGPUDevice", gpu, vf(gpu, number), {"vGPUTypeName": profile})
            for number, profile in vgpus.items()
        ),
    ]


def applied(desired_states: list[DesiredState], moved: tuple[Move, ...]) -> list[DesiredState]:
    put, gone = carry(moved, desired_states)
    replaced = {(desired.kind, desired.address) for desired in (*put, *gone)}
    return [
        *(desired for desired in desired_states if (desired.kind, desired.address) not in replaced),
        *put,
    ]


def by_card(desired_states: list[DesiredState]) -> dict[str, dict[str, list[object]]]:
    """What is desired of each card, at which distance from it."""
    cards = {w.gpu: w.status["gpuUUID"] for w in desired_states if w.kind == "SRIOVGPUDevice"}
    found: dict[str, dict[str, list[object]]] = {}
    for desired in desired_states:
        home = str(desired.address.shifted(desired.gpu, FIRST))
        found.setdefault(cards[desired.gpu], {})[f"{desired.kind} {home}"] = [desired.spec]
    return found


def claims(desired_states: list[DesiredState]) -> list[DesiredOn]:
    return [
        DesiredOn(w.gpu, w.status["gpuUUID"]) for w in desired_states if w.kind == "SRIOVGPUDevice"
    ]


PLACES = st.permutations(SLOTS).map(lambda slots: dict(zip(CARDS, slots, strict=False)))
VGPUS = st.dictionaries(st.integers(0, 15), st.sampled_from(["4Q", "8Q"]), max_size=4)


@given(PLACES, PLACES, st.sets(st.sampled_from(CARDS)), st.lists(VGPUS, min_size=4, max_size=4))
def test_after_any_permutation_every_card_has_its_own_desired_states(
    before: dict[str, PciAddress],
    after: dict[str, PciAddress],
    cards: set[str],
    vgpus: list[dict[int, str]],
) -> None:
    stored = [
        desired
        for card, wanted in zip(CARDS, vgpus, strict=True)
        if card in cards
        for desired in desired_states_of(before[card], card, wanted)
    ]
    identities = {address: card for card, address in after.items()}

    moved = moves(claims(stored), identities, ())
    now = applied(stored, moved)

    assert by_card(now) == by_card(stored)
    assert all(identities[desired.gpu] == _card(now, desired) for desired in now)
    assert moves(claims(now), identities, ()) == ()


def _card(desired_states: list[DesiredState], desired: DesiredState) -> str:
    return next(w.status["gpuUUID"] for w in desired_states if w.address == desired.gpu)


@given(
    PLACES,
    PLACES,
    st.sets(st.sampled_from(CARDS)),
    st.sets(st.sampled_from(CARDS)),
    st.sets(st.sampled_from(CARDS)),
)
def test_no_desired_state_is_lost_or_given_to_a_card_that_it_was_not_made_for(
    before: dict[str, PciAddress],
    after: dict[str, PciAddress],
    gone: set[str],
    unreported: set[str],
    unclaimed: set[str],
) -> None:
    """Whatever the scan shows of the cards, and whichever desired states were not recorded."""
    stored = [
        desired
        for card in CARDS
        for desired in desired_states_of(before[card], "" if card in unclaimed else card, {1: card})
    ]
    present = {address: card for card, address in after.items() if card not in gone}
    identities = {address: card for address, card in present.items() if card not in unreported}
    unknown = [address for address, card in present.items() if card in unreported]

    moved = moves(claims(stored), identities, unknown)
    now = applied(stored, moved)

    for move in moved:
        assert identities[move.after] == move.card
        assert before[move.card] == move.before
    profiles = [desired.spec["vGPUTypeName"] for desired in now if desired.kind == "VGPUDevice"]
    lost = set(CARDS) - set(profiles)
    assert len(profiles) == len(set(profiles))
    assert not unknown or not lost
    assert lost <= gone - unclaimed
    assert moves(claims(now), identities, unknown) == ()


def test_a_chain_moves_as_one() -> None:
    desired = [DesiredOn(FIRST, "GPU-A"), DesiredOn(SECOND, "GPU-B")]

    assert moves(desired, {FIRST: "GPU-N", SECOND: "GPU-A", THIRD: "GPU-B"}, ()) == (
        Move("GPU-A", FIRST, SECOND),
        Move("GPU-B", SECOND, THIRD),
    )


def test_a_chain_waits_as_one() -> None:
    desired = [DesiredOn(FIRST, "GPU-A"), DesiredOn(SECOND, "GPU-B"), DesiredOn(THIRD, "GPU-C")]
    identities = {SECOND: "GPU-A", THIRD: "GPU-B"}

    assert moves(desired, identities, [FOURTH]) == ()
    assert len(moves(desired, identities, ())) == 2


def test_a_replaced_card_inherits_nothing() -> None:
    assert moves([DesiredOn(FIRST, "GPU-A")], {FIRST: "GPU-B"}, ()) == ()


def test_of_two_claims_to_one_card_none_is_preferred() -> None:
    desired = [DesiredOn(FIRST, "GPU-A"), DesiredOn(SECOND, "GPU-A")]

    assert moves(desired, {THIRD: "GPU-A"}, ()) == ()
    assert moves(desired, {SECOND: "GPU-A"}, ()) == ()


def test_what_was_desired_of_a_card_that_is_gone_makes_room() -> None:
    stored = desired_states_of(FIRST, "GPU-A", {0: "4Q"}) + desired_states_of(
        SECOND, "GPU-B", {3: "8Q"}
    )
    moved = moves(claims(stored), {SECOND: "GPU-A"}, ())

    put, gone = carry(moved, stored)

    assert {(desired.kind, desired.address) for desired in put} == {
        ("SRIOVGPUDevice", SECOND),
        ("VGPUDevice", vf(SECOND, 0)),
    }
    assert {(desired.kind, desired.address) for desired in gone} == {
        ("SRIOVGPUDevice", FIRST),
        ("VGPUDevice", vf(FIRST, 0)),
        ("VGPUDevice", vf(SECOND, 3)),
    }


def test_a_function_for_which_no_bus_has_room_is_left_behind() -> None:
    last = PciAddress(0, 0xFF, 31, 0)
    stored = desired_states_of(FIRST, "GPU-A", {0: "4Q", 15: "4Q"})

    put, gone = carry(moves(claims(stored), {last: "GPU-A"}, ()), stored)

    assert [desired.address for desired in put] == [last, PciAddress(0, 0xFF, 31, 4)]
    assert vf(FIRST, 15) in [desired.address for desired in gone]


@pytest.mark.parametrize("identities", [{}, {FIRST: "GPU-A", SECOND: "GPU-B"}])
def test_nothing_moves_where_nothing_moved(identities: dict[PciAddress, str]) -> None:
    assert moves([DesiredOn(FIRST, "GPU-A"), DesiredOn(SECOND, "")], identities, [THIRD]) == ()
