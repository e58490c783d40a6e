"""Whether GPU instances can be on one card, by the names of their profiles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.mig.fitting import misfit

A100 = {"1g.5gb": 7, "1g.10gb": 4, "2g.10gb": 3, "3g.20gb": 2, "4g.20gb": 1, "7g.40gb": 1}
H200 = {"1g.18gb": 7, "1g.35gb": 4, "2g.35gb": 3, "3g.71gb": 2, "4g.71gb": 1, "7g.141gb": 1}
A30 = {"1g.6gb": 4, "2g.12gb": 2, "4g.24gb": 1}


@pytest.mark.parametrize(
    ("card", "wanted"),
    [
        (A100, {"1g.5gb": 7}),
        (A100, {"2g.10gb": 3, "1g.5gb": 1}),
        (A100, {"4g.20gb": 1, "3g.20gb": 1}),
        (H200, {"4g.71gb": 1, "3g.71gb": 1}),
        (H200, {"1g.35gb": 4}),
        (A30, {"2g.12gb": 1, "1g.6gb": 2}),
        ({"1g.5gb": 7}, {"1g.5gb": 7}),
        ({"1g.5gb": 7, "4g.20gb": 1}, {"1g.5gb": 7}),
        ({"1g.5gb": 7, "3g.20gb": 2}, {"3g.20gb": 1, "1g.5gb": 4}),
        (A100, {}),
        ({}, {"1g.5gb": 7}),
        ({"odd": 3}, {"odd": 3}),
    ],
)
def test_what_may_fit(card: dict[str, int], wanted: dict[str, int]) -> None:
    assert misfit(card, wanted) == ""


@pytest.mark.parametrize(
    ("card", "wanted", "why"),
    [
        (A100, {"3g.20gb": 2, "1g.5gb": 1}, "9 of 8 memory slices"),
        (A100, {"7g.40gb": 1, "1g.5gb": 1}, "8 of 7 compute slices"),
        (H200, {"3g.71gb": 2, "1g.18gb": 1}, "9 of 8 memory slices"),
        (A30, {"2g.12gb": 1, "1g.6gb": 3}, "5 of 4 compute slices"),
        (A100, {"4g.20gb": 2}, "room for 1 x 4g.20gb, not 2"),
    ],
)
def test_what_cannot_fit(card: dict[str, int], wanted: dict[str, int], why: str) -> None:
    assert why in misfit(card, wanted)


@given(
    st.dictionaries(
        st.sampled_from([*A100, *H200, "odd", ""]),
        st.integers(-2, 9) | st.just(1 << 62),
        max_size=5,
    ),
    st.dictionaries(st.sampled_from([*A100, *H200, "odd", ""]), st.integers(1, 4), max_size=3),
)
def test_it_says_something_of_anything(totals: dict[str, int], wanted: dict[str, int]) -> None:
    assert isinstance(misfit(totals, wanted), str)
