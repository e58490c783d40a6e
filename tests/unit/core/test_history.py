"""How times are typed, and how much of an entry was not observed."""

from __future__ import annotations

import pytest

from laneway.core.history import Gap, Hold, Span, moment, unobserved, written
from laneway.core.ledger.facts import Consumer, ConsumerKind

NOW = 1_800_000_000_000


def test_a_time_is_typed_as_a_moment_or_as_how_long_ago() -> None:
    assert moment("90s", NOW) == NOW - 90_000
    assert moment("7d", NOW) == NOW - 7 * 86_400_000
    assert written(moment("2026-01-31T08:00:00Z", NOW)) == "2026-01-31T08:00:00Z"
    assert written(moment("2026-01-31T08:00:00+02:00", NOW)) == "2026-01-31T06:00:00Z"
    assert written(moment("2026-01-31", NOW)) == "2026-01-31T00:00:00Z"


@pytest.mark.parametrize("text", ["", "7", "-7d", "d", "tomorrow", "7 d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        moment(text, NOW)


def test_only_the_part_of_a_gap_within_an_entry_counts() -> None:
    gaps = {"": [Gap(0, 15), Gap(18, 20), Gap(29, 40), Gap(50, 60)]}
    assert unobserved(Span(1, 10, 30, None), gaps, 100) == 5 + 2 + 1
    assert unobserved(Span(1, 10, None, None), gaps, 55) == 5 + 2 + 11 + 5


def test_a_gap_of_a_node_counts_for_its_devices_only() -> None:
    gaps = {"": [Gap(10, 20)], "n1": [Gap(30, 35, "n1"), Gap(50, None, "n1")]}
    anna = Consumer(ConsumerKind.VM, "team", "anna")
    on_n1, on_n2 = (Hold("d", node, "nvidia.com/A2-4Q", anna) for node in ("n1", "n2"))
    assert unobserved(Span(1, 0, None, on_n1), gaps, 57) == 10 + 5 + 7
    assert unobserved(Span(1, 0, None, on_n2), gaps, 57) == 10
