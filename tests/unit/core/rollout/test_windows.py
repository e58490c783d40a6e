"""Times of the week in which nodes may begin to reboot."""

from __future__ import annotations

from datetime import datetime, time

import pytest

from laneway.core.rollout.terms import budget
from laneway.core.rollout.windows import Window

NIGHT = Window(("Sat",), time(22, 0), 240)


@pytest.mark.parametrize(
    ("at", "is_open"),
    [
        ("2026-11-28T21:59", False),
        ("2026-11-28T22:00", True),  # a Saturday
        ("2026-11-29T01:59", True),  # it goes on after midnight
        ("2026-11-29T02:00", False),
        ("2026-11-29T23:00", False),
    ],
)
def test_a_window_opens_on_its_days_and_may_last_over_midnight(at: str, is_open: bool) -> None:
    assert NIGHT.is_open(datetime.fromisoformat(at)) == is_open


def test_a_window_without_days_opens_every_day() -> None:
    assert NIGHT._replace(days=()).is_open(datetime.fromisoformat("2026-11-25T23:00"))
    assert NIGHT._replace(days=()).words == "every day from 22:00 UTC for 240 minutes"


@pytest.mark.parametrize(
    ("text", "nodes", "allowed"),
    [("", 50, 1), ("3", 50, 3), (3, 50, 3), ("10%", 50, 5), ("10%", 3, 1), ("100%", 4, 4)],
)
def test_a_share_of_nodes_is_rounded_down_to_at_least_one(
    text: int | str, nodes: int, allowed: int
) -> None:
    assert budget(text, nodes) == allowed


@pytest.mark.parametrize("text", [0, "0", "-1", "110%", "many", "%", "0%"])
def test_what_is_no_number_of_nodes_is_refused(text: int | str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        budget(text, 10)
