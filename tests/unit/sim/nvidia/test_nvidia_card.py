"""Which vGPUs a GPU takes, against the reference results of the placement rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vgpu.catalogue import profiles_of
from laneway.sim.dump import Block
from laneway.sim.nvidia.card import Card
from laneway.sim.nvidia.geometry import GEOMETRIES
from laneway.sim.nvidia.nvml import NvmlError, Status
from laneway.sim.nvidia.types import CardType, card_types


def card_of(device: str) -> Card:
    """A card with all types that the catalogue knows, ids made up where it knows none."""
    rows = "".join(
        f"{profile.type_id or 90000 + n} : {profile.name}\n"
        for n, profile in enumerate(profiles_of(device))
    )
    attributes = {"device": f"0x{device}".encode(), "nvidia/creatable_vgpu_types": rows.encode()}
    block = Block(path="/devices/x", attributes=attributes)
    return Card(card_types(block, [block]), GEOMETRIES.get(device))


def kind(card: Card, end: str) -> CardType:
    return next(one for one in card.types.values() if one.name.endswith(end))


def fill(card: Card, end: str) -> list[int | None]:
    """Create vGPUs of a type until there is no room; where they went."""
    wanted = kind(card, end)
    number = len(card.vgpus)
    while card.create(f"vf{number}", wanted):
        number += 1
    return [vgpu.placement for vgpu in card.vgpus if vgpu.kind is wanted]


def mixed(device: str) -> Card:
    card = card_of(device)
    card.set_mixed(enabled=True)
    return card


@pytest.mark.parametrize(
    ("device", "end", "same", "mixed_ids"),
    [
        ("25b6", "A2-4Q", 4, [0, 4, 8, 12]),
        ("2235", "A40-8Q", 6, [0, 16, 24, 40]),
        ("2235", "A40-16Q", 3, [0, 32]),
        ("2235", "A40-4Q", 12, [0, 8, 12, 20, 24, 32, 36, 44]),
        ("2235", "A40-1Q", 32, 30),
        ("26b9", "L40S-1Q", 32, 16),
        ("2330", "H100XM-8C", 10, [0, 12, 20, 32, 40, 52, 60, 72]),
        ("2330", "H100XM-16C", 5, [0, 24, 40, 64]),
        ("2bb5", "DC-8Q", 12, list(range(0, 96, 8))),
        ("2bb5", "DC-2B", 32, list(range(0, 96, 3))),
        ("2bb5", "DC-32Q", 3, [0, 32, 64]),
    ],
)
def test_a_card_takes_as_many_of_a_type_as_the_table_says(
    device: str, end: str, same: int, mixed_ids: list[int] | int
) -> None:
    assert len(fill(card_of(device), end)) == same
    placements = fill(mixed(device), end)
    assert (len(placements) if isinstance(mixed_ids, int) else placements) == mixed_ids


def test_in_same_size_mode_ids_are_multiples_from_ada_on_and_unknown_before() -> None:
    assert fill(card_of("26b9"), "L40S-16Q") == [0, 16, 32]
    assert fill(card_of("25b6"), "A2-8Q") == [None, None]


def test_mixed_sizes_fragment_as_the_reference_says() -> None:
    a40 = mixed("2235")
    for function, end, placement in (("a", "-24Q", 0), ("b", "-8Q", 24), ("c", "-16Q", 32)):
        assert a40.create(function, kind(a40, end))
        vgpu = a40.vgpu(function)
        assert vgpu is not None
        assert vgpu.placement == placement
    a40 = mixed("2235")
    assert a40.create("a", kind(a40, "A40-1Q"))
    assert not a40.create("b", kind(a40, "-48Q"))
    assert [fill(a40, "-24Q"), fill(a40, "-16Q")] == [[24], []]
    h100 = mixed("2330")
    assert h100.create("a", kind(h100, "-8C"))
    assert fill(h100, "-16C") == [24, 40, 64]
    rtx = mixed("2bb5")
    assert rtx.create("a", kind(rtx, "DC-48Q"))
    assert fill(rtx, "DC-32Q") == [64]


def test_with_mixed_sizes_available_instances_still_counts_every_vgpu() -> None:
    a2 = mixed("25b6")
    assert a2.create("a", kind(a2, "A2-1Q"))
    assert a2.create("b", kind(a2, "A2-1Q"))
    eight = kind(a2, "A2-8Q")
    assert not a2.announced("c", eight)
    assert eight in a2.creatable("c")
    assert a2.create("c", eight)


def test_mig_backed_vgpus_need_an_instance_and_time_sliced_ones_none() -> None:
    rtx = card_of("2bb5")
    profile = rtx.geometry and rtx.geometry.profile("1g.24gb+gfx")
    assert profile is not None
    assert not rtx.create("a", kind(rtx, "DC-1-2Q"))
    rtx.set_mig(enabled=True, busy=False)
    assert rtx.creatable("a") == ()
    first = rtx.create_instance(profile, 6)
    assert {one.flags for one in rtx.creatable("a")} == {profile.flags}
    assert fill(rtx, "DC-1-3Q") == [0, 3, 6, 9, 12, 15, 18, 21]
    second = rtx.create_instance(profile, 0)
    assert second < first
    assert rtx.create("b", kind(rtx, "DC-1-24Q"))
    vgpu = rtx.vgpu("b")
    assert vgpu is not None
    assert (vgpu.instance, vgpu.placement) == (second, 0)
    refuse(Status.IN_USE, lambda: rtx.destroy_instance(first))
    refuse(Status.IN_USE, lambda: rtx.set_mig(enabled=False, busy=False))


def test_no_card_takes_more_than_thirty_two_time_sliced_vgpus() -> None:
    card = Card((CardType(1, "X-1Q", 1024, 64, slots=1, mixed_ids=tuple(range(64))),))
    assert len(fill(card, "X-1Q")) == 32
    card = Card(tuple(card.types.values()))
    card.set_mixed(enabled=True)
    assert len(fill(card, "X-1Q")) == 32


def test_the_instance_with_the_lowest_id_comes_first() -> None:
    a100 = card_of("20f1")
    a100.set_mig(enabled=True, busy=False)
    profile = a100.geometry and a100.geometry.profile("1g.5gb")
    assert profile is not None
    numbers = [a100.create_instance(profile, start) for start in (6, 0, 3)]
    for function in "abc":
        assert a100.create(function, kind(a100, "A100-1-5C"))
    assert [vgpu.instance for vgpu in a100.vgpus] == sorted(numbers)


def test_one_instance_takes_twelve_vgpus_and_a_card_forty_eight() -> None:
    rtx = card_of("2bb5")
    rtx.set_mig(enabled=True, busy=False)
    profile = rtx.geometry and rtx.geometry.profile("47")
    assert profile is not None
    assert len(fill(rtx, "DC-1-2Q")) == 0
    for wanted in (12, 24, 36, 48):
        rtx.create_instance(profile)
        assert len(fill(rtx, "DC-1-2Q")) == wanted


def test_each_instance_has_its_own_mixed_size_mode() -> None:
    rtx = card_of("2bb5")
    rtx.set_mig(enabled=True, busy=False)
    profile = rtx.geometry and rtx.geometry.profile("47")
    assert profile is not None
    plain, mixed_one = rtx.create_instance(profile), rtx.create_instance(profile)
    rtx.set_instance_mixed(mixed_one, enabled=True)
    assert rtx.create("a", kind(rtx, "DC-1-12Q"))
    assert rtx.create("b", kind(rtx, "DC-1-8Q"))
    assert rtx.create("c", kind(rtx, "DC-1-12Q"))
    assert rtx.create("d", kind(rtx, "DC-1-12Q"))
    homes = [(vgpu.instance, vgpu.placement) for vgpu in rtx.vgpus]
    assert homes == [(plain, 0), (mixed_one, 0), (plain, 12), (mixed_one, 12)]
    refuse(Status.IN_USE, lambda: rtx.set_instance_mixed(mixed_one, enabled=False))


def test_without_time_slicing_an_instance_carries_one_vgpu() -> None:
    a100 = card_of("20f1")
    a100.set_mig(enabled=True, busy=False)
    profile = a100.geometry and a100.geometry.profile("1g.5gb")
    assert profile is not None
    number = a100.create_instance(profile)
    assert fill(a100, "A100-1-5C") == [None]
    refuse(Status.NOT_SUPPORTED, lambda: a100.set_instance_mixed(number, enabled=True))


def test_modes_change_on_empty_cards_that_have_them() -> None:
    a2 = card_of("25b6")
    refuse(Status.NOT_SUPPORTED, lambda: a2.set_mig(enabled=True, busy=False))
    assert a2.create("a", kind(a2, "A2-4Q"))
    refuse(Status.IN_USE, lambda: a2.set_mixed(enabled=True))
    a2.remove("a")
    a2.set_mixed(enabled=True)
    a2.rebound()
    assert not a2.mixed
    h100 = card_of("2330")
    refuse(Status.IN_USE, lambda: h100.set_mig(enabled=True, busy=True))
    h100.set_mixed(enabled=True)
    h100.set_mig(enabled=False, busy=True)
    assert h100.mixed
    h100.set_mig(enabled=True, busy=False)
    assert not h100.mixed
    refuse(Status.NOT_SUPPORTED, lambda: h100.set_mixed(enabled=True))


def refuse(status: Status, action: Callable[[], object]) -> None:
    with pytest.raises(NvmlError) as caught:
        action()
    assert caught.value.status is status


CARDS = {device: card_of(device) for device in ("25b6", "2235", "26b9", "20f1", "2330", "2bb5")}


@given(
    data=st.data(),
    device=st.sampled_from(sorted(CARDS)),
    mode=st.sampled_from(["same", "mixed", "mig"]),
)
def test_what_is_listed_as_creatable_is_exactly_what_is_accepted(
    data: st.DataObject, device: str, mode: str
) -> None:
    known = CARDS[device]
    card = Card(tuple(known.types.values()), known.geometry)
    if mode == "mixed":
        card.set_mixed(enabled=True)
    if mode == "mig" and card.geometry is not None:
        card.set_mig(enabled=True, busy=False)
        for pick in data.draw(st.lists(st.sampled_from(card.geometry.profiles), max_size=4)):
            if card.geometry.choose(pick, card.layout) is not None:
                number = card.create_instance(pick)
                if card.geometry.time_slicing and data.draw(st.booleans()):
                    card.set_instance_mixed(number, enabled=True)
    kinds = list(card.types.values())
    for _ in range(data.draw(st.integers(1, 20))):
        function = data.draw(st.sampled_from("abcdefgh"))
        before = card.vgpus
        listed = card.creatable(function)
        wanted = data.draw(st.sampled_from(listed) if listed else st.sampled_from(kinds))
        if data.draw(st.integers(0, 3)) == 0:
            card.remove(function)
            continue
        if data.draw(st.booleans()):
            wanted = data.draw(st.sampled_from(kinds))
        assert card.announced(function, wanted) <= (wanted in listed)
        assert card.create(function, wanted) == (wanted in listed)
        assert (card.vgpus != before) == (wanted in listed)
    check_no_overlap(card)


def check_no_overlap(card: Card) -> None:
    taken: set[tuple[int | None, int]] = set()
    for vgpu in card.vgpus:
        if vgpu.placement is not None:
            slots = range(vgpu.placement, vgpu.placement + vgpu.kind.slots)
            mine = {(vgpu.instance, slot) for slot in slots}
            assert not mine & taken
            taken |= mine


def test_a_captured_mig_backed_vgpu_implies_its_instance() -> None:
    rtx = card_of("2bb5")
    for number, end in enumerate(["DC-1-12Q", "DC-1-12Q", "DC-1-24Q", "DC-2-48Q"]):
        rtx.adopt(f"vf{number}", kind(rtx, end))
    assert [profile.name for profile, _ in rtx.layout] == [
        "1g.24gb+gfx",
        "1g.24gb+gfx",
        "2g.48gb+gfx",
    ]
    homes = [(vgpu.instance, vgpu.placement) for vgpu in rtx.vgpus]
    assert homes == [(3, 0), (3, 12), (4, 0), (2, 0)]
    assert rtx.creatable("another") == ()
