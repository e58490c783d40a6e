"""Where GPU instances are, by their ids."""

from __future__ import annotations

import pytest

from laneway.core.mig.positions import EIGHTHS, Position, free_positions, positions
from laneway.sim.nvidia.geometry import GEOMETRIES

A100 = "20f1"


@pytest.mark.parametrize("device", GEOMETRIES)
def test_the_id_tells_the_place_on_every_card_that_is_simulated(device: str) -> None:
    card = GEOMETRIES[device]
    for profile in card.profiles:
        for start in profile.starts:
            number = card.instance_id(profile, start)
            found = positions(device, [(number, profile.name)])
            assert found == {
                number: Position(
                    profile.name,
                    start * EIGHTHS // card.units,
                    profile.size * EIGHTHS // card.units,
                )
            }


def test_places_that_cannot_be_are_not_known() -> None:
    assert positions(A100, [(1, "3g.20gb"), (7, "1g.5gb")]) is None  # both at the beginning
    assert positions(A100, [(2, "1g.5gb")]) is None  # would be before the beginning
    assert positions(A100, [(14, "1g.5gb")]) is None  # the eighth has no compute slice
    assert positions(A100, [(7, "9g.99gb")]) is None
    assert positions("ffff", [(7, "1g.5gb")]) is None


def test_what_is_free_is_between_the_instances() -> None:
    there = positions(A100, [(1, "3g.20gb"), (11, "1g.5gb")])
    assert there is not None
    found = free_positions(A100, there.values(), {"1g.5gb": 2, "2g.10gb": 0, "1g.10gb": 1})
    assert [(one.profile, one.start) for one in found] == [
        ("1g.5gb", 5),
        ("1g.5gb", 6),
        ("1g.10gb", 6),
    ]


def test_an_instance_with_media_engines_can_be_at_each_place_of_its_size() -> None:
    found = free_positions(A100, (), {"1g.5gb+me": 1})
    assert [one.start for one in found] == list(range(7))
