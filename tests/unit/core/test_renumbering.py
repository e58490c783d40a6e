"""Wishes follow their cards, and nothing else does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.pci import PciAddress
from laneway.core.renumbering import Move, Wish, Wished, carry, moves

SLOTS = [PciAddress(0, bus, 0, 0) for bus in (0x08, 0x09, 0x17, 0x30, 0x98)]
CARDS = ["GPU-A", "GPU-B", "GPU-C", "GPU-D"]
FIRST, SECOND, THIRD, FOURTH, _ = SLOTS


def vf(gpu: PciAddress, number: int) -> PciAddress:
    return PciAddress(gpu.domain, gpu.bus, number + 4 >> 3, number + 4 & 7)


def wishes_of(gpu: PciAddress, card: str, vgpus: Mapping[int, str]) -> list[Wish]:
    return [
        Wish("SRIOVGPUDevice", gpu, gpu, {"enabled": True}, {"gpuUUID": card}),
        *(
            Wish("VGPUDevice", gpu, vf(gpu, number), {"vGPUTypeName": profile})
            for number, profile in vgpus.items()
        ),
    ]


def applied(wishes: list[Wish], moved: tuple[Move, ...]) -> list[Wish]:
    put, gone = carry(moved, wishes)
    replaced = {(wish.kind, wish.address) for wish in (*put, *gone)}
    return [*(wish for wish in wishes if (wish.kind, wish.address) not in replaced), *put]


def by_card(wishes: list[Wish]) -> dict[str, dict[str, list[object]]]:
    """What is wished of each card, at which distance from it."""
    cards = {w.gpu: w.status["gpuUUID"] for w in wishes if w.kind == "SRIOVGPUDevice"}
    found: dict[str, dict[str, list[object]]] = {}
    for wish in wishes:
        home = str(wish.address.shifted(wish.gpu, FIRST))
        found.setdefault(cards[wish.gpu], {})[f"{wish.kind} {home}"] = [wish.spec]
    return found


def claims(wishes: list[Wish]) -> list[Wished]:
    return [Wished(w.gpu, w.status["gpuUUID"]) for w in wishes if w.kind == "SRIOVGPUDevice"]


PLACES = st.permutations(SLOTS).map(lambda slots: dict(zip(CARDS, slots, strict=False)))
VGPUS = st.dictionaries(st.integers(0, 15), st.sampled_from(["4Q", "8Q"]), max_size=4)


@given(PLACES, PLACES, st.sets(st.sampled_from(CARDS)), st.lists(VGPUS, min_size=4, max_size=4))
def test_after_any_permutation_every_card_has_its_own_wishes(
    before: dict[str, PciAddress],
    after: dict[str, PciAddress],
    wished: set[str],
    vgpus: list[dict[int, str]],
) -> None:
    stored = [
        wish
        for card, wanted in zip(CARDS, vgpus, strict=True)
        if card in wished
        for wish in wishes_of(before[card], card, wanted)
    ]
    identities = {address: card for card, address in after.items()}

    moved = moves(claims(stored), identities, ())
    now = applied(stored, moved)

    assert by_card(now) == by_card(stored)
    assert all(identities[wish.gpu] == _card(now, wish) for wish in now)
    assert moves(claims(now), identities, ()) == ()


def _card(wishes: list[Wish], wish: Wish) -> str:
    return next(w.status["gpuUUID"] for w in wishes if w.address == wish.gpu)


@given(
    PLACES,
    PLACES,
    st.sets(st.sampled_from(CARDS)),
    st.sets(st.sampled_from(CARDS)),
    st.sets(st.sampled_from(CARDS)),
)
def test_no_wish_is_lost_or_given_to_a_card_that_it_was_not_made_for(
    before: dict[str, PciAddress],
    after: dict[str, PciAddress],
    gone: set[str],
    untold: set[str],
    unclaimed: set[str],
) -> None:
    """Whatever the scan shows of the cards, and whoever's wishes nobody recorded."""
    stored = [
        wish
        for card in CARDS
        for wish in wishes_of(before[card], "" if card in unclaimed else card, {1: card})
    ]
    present = {address: card for card, address in after.items() if card not in gone}
    identities = {address: card for address, card in present.items() if card not in untold}
    unknown = [address for address, card in present.items() if card in untold]

    moved = moves(claims(stored), identities, unknown)
    now = applied(stored, moved)

    for move in moved:
        assert identities[move.after] == move.card
        assert before[move.card] == move.before
    profiles = [wish.spec["vGPUTypeName"] for wish in now if wish.kind == "VGPUDevice"]
    lost = set(CARDS) - set(profiles)
    assert len(profiles) == len(set(profiles))
    assert not unknown or not lost
    assert lost <= gone - unclaimed
    assert moves(claims(now), identities, unknown) == ()


def test_a_chain_moves_as_one() -> None:
    wished = [Wished(FIRST, "GPU-A"), Wished(SECOND, "GPU-B")]

    assert moves(wished, {FIRST: "GPU-N", SECOND: "GPU-A", THIRD: "GPU-B"}, ()) == (
        Move("GPU-A", FIRST, SECOND),
        Move("GPU-B", SECOND, THIRD),
    )


def test_a_chain_waits_as_one() -> None:
    wished = [Wished(FIRST, "GPU-A"), Wished(SECOND, "GPU-B"), Wished(THIRD, "GPU-C")]
    identities = {SECOND: "GPU-A", THIRD: "GPU-B"}

    assert moves(wished, identities, [FOURTH]) == ()
    assert len(moves(wished, identities, ())) == 2


def test_a_replaced_card_inherits_nothing() -> None:
    assert moves([Wished(FIRST, "GPU-A")], {FIRST: "GPU-B"}, ()) == ()


def test_of_two_claims_to_one_card_none_is_preferred() -> None:
    wished = [Wished(FIRST, "GPU-A"), Wished(SECOND, "GPU-A")]

    assert moves(wished, {THIRD: "GPU-A"}, ()) == ()
    assert moves(wished, {SECOND: "GPU-A"}, ()) == ()


def test_what_was_wished_of_a_card_that_is_gone_makes_room() -> None:
    stored = wishes_of(FIRST, "GPU-A", {0: "4Q"}) + wishes_of(SECOND, "GPU-B", {3: "8Q"})
    moved = moves(claims(stored), {SECOND: "GPU-A"}, ())

    put, gone = carry(moved, stored)

    assert {(wish.kind, wish.address) for wish in put} == {
        ("SRIOVGPUDevice", SECOND),
        ("VGPUDevice", vf(SECOND, 0)),
    }
    assert {(wish.kind, wish.address) for wish in gone} == {
        ("SRIOVGPUDevice", FIRST),
        ("VGPUDevice", vf(FIRST, 0)),
        ("VGPUDevice", vf(SECOND, 3)),
    }


def test_a_function_for_which_no_bus_has_room_is_left_behind() -> None:
    last = PciAddress(0, 0xFF, 31, 0)
    stored = wishes_of(FIRST, "GPU-A", {0: "4Q", 15: "4Q"})

    put, gone = carry(moves(claims(stored), {last: "GPU-A"}, ()), stored)

    assert [wish.address for wish in put] == [last, PciAddress(0, 0xFF, 31, 4)]
    assert vf(FIRST, 15) in [wish.address for wish in gone]


@pytest.mark.parametrize("identities", [{}, {FIRST: "GPU-A", SECOND: "GPU-B"}])
def test_nothing_moves_where_nothing_moved(identities: dict[PciAddress, str]) -> None:
    assert moves([Wished(FIRST, "GPU-A"), Wished(SECOND, "")], identities, [THIRD]) == ()
