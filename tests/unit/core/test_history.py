"""How times are typed, and how much of an entry was not observed."""

from __future__ import annotations

import pytest

from laneway.core.history import Period, Span, moment, unobserved, written

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
    gaps = [Period(0, 15), Period(18, 20), Period(29, 40), Period(50, 60)]
    assert unobserved(Span(1, 10, 30, None), gaps, 100) == 5 + 2 + 1
    assert unobserved(Span(1, 10, None, None), gaps, 55) == 5 + 2 + 11 + 5
