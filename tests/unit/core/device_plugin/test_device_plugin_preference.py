"""Devices are packed: what is left over is of use to the next one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.device_plugin.offer import Form, Offer, Seat
from laneway.core.device_plugin.preference import prefer
from laneway.core.pci import PciAddress


def offer(one: str, *, card: str | None = None, **fields: Any) -> Offer:
    on = PciAddress.parse(card) if card else None
    kind = {"resource": "nvidia.com/X", "form": Form.PCI, "kind": "PCIDevice", "name": one}
    return Offer(id=one, card=on, **kind, **fields)


def by_id(*offers: Offer) -> dict[str, Offer]:
    return {one.id: one for one in offers}


def vgpus(*cards: tuple[str, int | None]) -> dict[str, Offer]:
    """Four on each card, every one in a group of its own: a0 to a3 on card a."""
    return by_id(
        *(
            offer(f"{name}{at}", card=f"0000:0{bus}:00.0", numa_node=node, group=10 * bus + at)
            for bus, (name, node) in enumerate(cards)
            for at in range(4)
        )
    )


@pytest.mark.parametrize(
    ("held", "size", "chosen"),
    [
        ("", 1, "a0"),
        ("a0 b0 b1", 1, "b2"),
        ("a0 b0 b1", 2, "b2 b3"),
        ("a0 b0 b1", 3, "a1 a2 a3"),
        ("a0 b0 b1", 4, "c0 c1 c2 c3"),
        ("a0 b0 b1 c0", 4, "a1 a2 a3 b2"),
        ("a0 b0 b1 c0 c1", 5, "a1 a2 a3 b2 b3"),
        ("a0 b0 b1", 9, "c0 c1 c2 c3 a1 a2 a3 b2 b3"),
    ],
)
def test_one_card_for_all_and_the_fullest_that_has_room(held: str, size: int, chosen: str) -> None:
    offers = vgpus(("a", 0), ("b", 0), ("c", 0))
    available = [one for one in reversed(offers) if one not in held.split()]
    assert prefer(offers, available, [], size) == tuple(chosen.split())


def test_one_numa_node_before_fewer_cards() -> None:
    offers = vgpus(("a", 0), ("b", 1), ("c", 1))
    available = [*offers]
    assert {one[0] for one in prefer(offers, available, [], 8)} == {"b", "c"}


def test_the_node_with_the_fullest_card_that_has_room() -> None:
    offers = vgpus(("a", 0), ("b", 1))
    assert prefer(offers, [one for one in offers if one != "b0"], [], 2) == ("b1", "b2")


def test_what_must_be_taken_draws_the_rest_to_it() -> None:
    offers = vgpus(("a", 0), ("b", 1), ("c", 1))
    assert prefer(offers, [*offers], ["c3"], 3) == ("c3", "c0", "c1")
    available = [one for one in offers if one not in ("c0", "c1", "c2")]
    assert prefer(offers, available, ["c3"], 2) == ("c3", "b0"), "the same node at least"


def test_whole_groups_are_used_up() -> None:
    offers = by_id(
        *(offer(one, card=f"0000:0{at}:00.0", group=1) for at, one in enumerate(("a", "b"))),
        offer("c", card="0000:05:00.0", group=2),
        *(offer(one, card=f"0000:0{at}:00.0", group=3) for at, one in enumerate(("d", "e"), 6)),
    )
    assert prefer(offers, [*offers], [], 1) == ("c",)
    assert prefer(offers, [*offers], [], 2) == ("a", "b")
    assert prefer(offers, [*offers], ["d"], 2) == ("d", "e")
    assert {*prefer(offers, [*offers], ["d"], 3)} == {"c", "d", "e"}


def test_a_whole_group_of_a_card_before_a_part_of_one() -> None:
    on = "0000:01:00.0"
    groups = {"a": 1, "b": 2, "c": 2}
    offers = by_id(*(offer(one, card=on, group=group) for one, group in groups.items()))
    assert prefer(offers, [*offers], [], 2) == ("b", "c")


def test_a_card_is_full_by_what_is_taken_not_by_how_little_it_has() -> None:
    small = [offer(one, card="0000:01:00.0") for one in ("a0", "a1")]
    large = [offer(one, card="0000:02:00.0") for one in ("b0", "b1", "b2", "b3")]
    offers = by_id(*small, *large)
    assert prefer(offers, [one for one in offers if one != "b0"], [], 1) == ("b1",)


def test_devices_of_unknown_node_are_not_taken_for_those_of_node_0() -> None:
    offers = vgpus(("a", None), ("b", 0), ("c", 0))
    assert {one[0] for one in prefer(offers, [*offers], [], 5)} == {"b", "c"}


def test_what_is_not_healthy_is_taken_last() -> None:
    offers = by_id(offer("a", unhealthy="gone"), offer("b"))
    assert prefer(offers, ["a", "b"], [], 1) == ("b",)
    assert prefer(offers, ["a", "b", "never heard of"], [], 3)[0] == "b"


L40S = ("26b9", "NVIDIA L40S-12Q")


def quarters(
    card: str, bus: int, *starts: int, others: tuple[tuple[str, int], ...] = ()
) -> dict[str, Offer]:
    """12 GB vGPUs at these slots of a GPU of 48 GB whose vGPUs may differ in size."""
    on = f"0000:0{bus}:00.0"
    return by_id(
        *(offer(f"{card}{at}", card=on, seat=Seat(*L40S, at, others)) for at in starts),
    )


def test_the_half_of_a_gpu_that_is_in_use_is_filled_first() -> None:
    offers = quarters("a", 1, 0, 12, 24, 36)
    free = ["a0", "a12", "a24"]
    assert prefer(offers, free, [], 1) == ("a24",)
    assert prefer(offers, free, [], 2) == ("a24", "a0")


def test_a_gpu_that_is_less_full_is_taken_where_the_fullest_would_lose_a_place_of_24_gb() -> None:
    half = (("NVIDIA L40S-24Q", 0),)
    offers = quarters("a", 1, 24, 36, others=half) | quarters("b", 2, 0, 12, 24, 36)
    free = [one for one in offers if one != "b0"]
    assert prefer(offers, free, [], 1) == ("b12",)


def test_vgpus_whose_places_are_known_in_part_are_packed_by_number() -> None:
    offers = quarters("a", 1, 0, 12, 24, 36) | by_id(offer("b0", card="0000:02:00.0"))
    assert prefer(offers, ["a0", "a12", "a24", "b0"], [], 1) == ("a0",)


IDS = st.sampled_from([f"d{at}" for at in range(8)] + ["?", ""])
CARDS = st.none() | st.sampled_from(["0000:01:00.0", "0000:02:00.0", "0000:03:00.0"])
OFFERS = st.lists(
    st.builds(
        offer,
        IDS,
        card=CARDS,
        group=st.none() | st.integers(0, 3),
        numa_node=st.none() | st.integers(-1, 2),
        unhealthy=st.sampled_from(["", "", "gone"]),
    ),
    unique_by=lambda one: one.id,
    max_size=8,
)


@given(
    OFFERS, st.lists(IDS, max_size=9), st.lists(IDS, max_size=4), st.integers(-2, 9), st.randoms()
)
def test_exactly_so_many_of_the_available_ones_and_those_that_must_be(
    offers: list[Offer], available: list[str], must: list[str], size: int, random: Any
) -> None:
    chosen = prefer(by_id(*offers), available, must, size)
    assert len(chosen) == len({*chosen}) == max(0, min(size, len({*available})))
    assert {*chosen} <= {*available}
    if len({*must} & {*available}) <= size:
        assert {*must} & {*available} <= {*chosen}
    mixed = random.sample(offers, len(offers)), random.sample(available, len(available))
    assert {*prefer(by_id(*mixed[0]), mixed[1], must, size)} == {*chosen}
