"""Where GPU instances fit, against listings that real cards gave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.sim.nvidia.geometry import GEOMETRIES, Geometry, Placement

A100, A30, H100, RTX = (GEOMETRIES[device] for device in ("20f1", "20b7", "2330", "2bb5"))


def create(geometry: Geometry, *names: str) -> list[int | None]:
    """The ids of instances that are created one after another; None where one does not fit."""
    laid: list[Placement] = []
    ids: list[int | None] = []
    for name in names:
        profile = geometry.profile(name)
        assert profile is not None
        start = geometry.choose(profile, laid)
        ids.append(None if start is None else geometry.instance_id(profile, start))
        if start is not None:
            laid.append((profile, start))
    return ids


@pytest.mark.parametrize(
    ("geometry", "names", "ids"),
    [
        (H100, ["19"] * 8, [13, 11, 12, 7, 8, 9, 10, None]),
        (H100, ["14", "14", "14", "20"], [5, 3, 4, 13]),
        (A100, ["19", "19", "14", "9"], [13, 11, 3, None]),
        (A100, ["9", "19", "14", "19"], [2, 7, 4, 8]),
        (A100, ["9", "3g.20gb", "19"], [2, 1, None]),
        (A30, ["14", "14"], [3, 4]),
        (A30, ["1g.6gb+me", "2g.12gb+me"], [3, None]),
        (RTX, ["47"] * 5, [3, 4, 5, 6, None]),
        (RTX, ["2g.48gb", "MIG 1g.24gb", "14"], [1, 5, 6]),
        (RTX, ["1g.24gb+me.all", "1g.24gb-me", "1g.24gb"], [3, 4, None]),
    ],
)
def test_instances_get_the_ids_that_real_cards_gave(
    geometry: Geometry, names: list[str], ids: list[int | None]
) -> None:
    assert create(geometry, *names) == ids


@pytest.mark.parametrize("geometry", [A100, A30, H100, RTX])
def test_an_empty_card_has_room_for_as_many_of_each_profile_as_its_total(
    geometry: Geometry,
) -> None:
    for profile in geometry.profiles:
        assert geometry.count_free(profile, []) == profile.total


@given(
    geometry=st.sampled_from([A100, A30, H100, RTX]),
    picks=st.lists(st.integers(0, 20), max_size=12),
)
def test_instances_never_overlap_nor_leave_the_card_and_have_ids_of_their_own(
    geometry: Geometry, picks: list[int]
) -> None:
    laid: list[Placement] = []
    for pick in picks:
        profile = geometry.profiles[pick % len(geometry.profiles)]
        free = geometry.free_starts(profile, laid)
        assert bool(free) == (geometry.count_free(profile, laid) > 0)
        start = geometry.choose(profile, laid)
        assert (start is None) == (not free)
        if start is not None:
            assert start in free
            laid.append((profile, start))
    units = [unit for profile, start in laid for unit in range(start, start + profile.size)]
    assert len(units) == len(set(units))
    assert all(0 <= unit < geometry.units for unit in units)
    ids = [geometry.instance_id(profile, start) for profile, start in laid]
    assert len(ids) == len(set(ids))
