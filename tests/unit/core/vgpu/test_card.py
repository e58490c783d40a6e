"""Boards as far as room on them matters: the reference rules, and the catalogue."""

from __future__ import annotations

import pytest

from laneway.core.vgpu.card import card_of, even_ids, halved_ids
from laneway.core.vgpu.catalogue import VgpuProfile, profiles_of

A2, A10, A40, L40S, H100, H200, RTX_PRO = "25b6", "2236", "2235", "26b9", "2331", "233b", "2bb5"


@pytest.mark.parametrize(
    ("region", "slots", "maximum", "ids"),
    [
        (48, 8, 6, (0, 16, 24, 40)),
        (48, 16, 3, (0, 32)),
        (48, 12, 4, (0, 12, 24, 36)),
        (48, 4, 12, (0, 8, 12, 20, 24, 32, 36, 44)),
        (24, 8, 3, (0, 16)),
        (80, 8, 10, (0, 12, 20, 32, 40, 52, 60, 72)),
        (80, 16, 5, (0, 24, 40, 64)),
        (141, 14, 10, (0, 21, 35, 56, 70, 91, 105, 127)),
        (48, 48, 1, (0,)),
    ],
)
def test_places_before_blackwell_come_from_halving(
    region: int, slots: int, maximum: int, ids: tuple[int, ...]
) -> None:
    assert halved_ids(region, slots, maximum) == ids


def test_places_since_blackwell_divide_evenly() -> None:
    assert even_ids(96, 12) == tuple(range(0, 96, 8))
    assert even_ids(96, 32) == tuple(range(0, 96, 3))
    assert even_ids(96, 3) == (0, 32, 64)


# Boards of 48 GB keep places from 1 GB profiles, more of them with a GPU system processor. All such
# boards are in the catalogue.
DENIED = frozenset({8, 32})


DENIED_WITH_GSP = frozenset({2, 3, 8, 9, 14, 15, 20, 21, 26, 27, 32, 33, 38, 39, 44, 45})


def test_the_rules_give_the_places_that_the_catalogue_has() -> None:
    devices = {A2, A10, A40, L40S, H100, H200, RTX_PRO, "20f1", "20b5", "20b7", "2321", "2bb9"}
    compared = 0
    for device in sorted(devices):
        rows = [row for row in profiles_of(device) if not row.mig_backed]
        for row in rows:
            if row.placement_ids:
                region = max(one.framebuffer_mib for one in rows if one.board == row.board) // 1024
                assert by_rule(row, region) == row.placement_ids, row.name
                compared += 1
    assert compared > 150


def by_rule(row: VgpuProfile, region: int) -> tuple[int, ...]:
    assert row.max_per_gpu
    if int(row.device, 16) >= 0x2900:
        return even_ids(region, row.max_per_gpu)
    denied = frozenset[int]()
    if region == 48 and row.framebuffer_mib == 1024:
        denied = DENIED_WITH_GSP if row.device > "2600" else DENIED
    ids = halved_ids(region, row.framebuffer_mib // 1024, row.max_per_gpu)
    return tuple(one for one in ids if one not in denied)


def test_a_board_that_the_catalogue_lacks_is_placed_by_rule() -> None:
    old = card_of("25ff", ["NVIDIA A99-1Q", "NVIDIA A99-8Q", "NVIDIA A99-24Q"])
    new = card_of("2fff", ["NVIDIA B99-1Q", "NVIDIA B99-8Q", "NVIDIA B99-24Q"])

    assert old.kinds["NVIDIA A99-8Q"].ids == (0, 16)
    assert new.kinds["NVIDIA B99-8Q"].ids == (0, 8, 16)
    assert (old.region, new.region) == (24, 24)


def test_two_gigabytes_take_three_slots_where_only_32_are_supported() -> None:
    card = card_of(RTX_PRO)
    kind = card.kinds["NVIDIA RTX Pro 6000 Blackwell DC-2B"]
    assert (kind.slots, kind.ids) == (3, tuple(range(0, 96, 3)))


def test_a_driver_that_lists_one_board_of_an_id_rules_the_others_out() -> None:
    assert any("A16" in name for name in card_of(A2).kinds)
    assert not any("A16" in name for name in card_of(A2, ["NVIDIA A2-1Q"]).kinds)
