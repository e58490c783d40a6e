"""The laws of a roll-out: it ends, and never has too many machines, nor too few that work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.simcluster.clusterapi.rollout import SetSize, limits, resized


@pytest.mark.parametrize(
    ("desired", "surge", "unavailable", "found"),
    [
        (3, None, None, (1, 0)),
        (3, 0, 1, (0, 1)),
        (3, 0, 0, (0, 1)),
        (3, "50%", "50%", (2, 1)),
        (3, 2, "0%", (2, 0)),
        (3, "nonsense", None, (0, 1)),
        (0, "50%", "50%", (0, 1)),
    ],
)
def test_limits_are_numbers_or_shares(
    desired: int, surge: int | str | None, unavailable: int | str | None, found: tuple[int, int]
) -> None:
    assert limits(desired, surge, unavailable) == found


@given(
    desired=st.integers(0, 6),
    old=st.lists(st.integers(0, 5), max_size=3),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    working=st.data(),
)
def test_a_roll_out_ends_within_its_limits(
    desired: int, old: list[int], surge: int, unavailable: int, working: st.DataObject
) -> None:
    surge, unavailable = limits(desired, surge, unavailable)
    sizes = {"new": 0} | {f"old{n}": size for n, size in enumerate(old)}
    available = {
        name: working.draw(st.integers(0, size), label=name) for name, size in sizes.items()
    }
    for _ in range(100):
        before, worked = dict(sizes), sum(available.values())
        new, *others = [SetSize(name, sizes[name], available[name]) for name in sizes]
        sizes |= resized(desired, new, others, surge=surge, unavailable=unavailable)
        grown = sum(sizes.values()) > sum(before.values())
        assert not grown or sum(sizes.values()) <= desired + surge
        if sizes["new"] <= desired and before["new"] <= desired:
            # Machines that do not work are the first of a set to go.
            kept = sum(min(available[name], sizes[name]) for name in sizes)
            assert kept >= min(worked, desired - unavailable)
        if sizes == before and available == sizes:
            break
        available = dict(sizes)  # whatever there is works in the end
    assert sizes == {"new": desired} | {f"old{n}": 0 for n in range(len(old))}
