"""In which order names are listed, and how profiles are called for short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.phrases import short_name
from laneway.views.order import natural


@given(st.lists(st.text(), max_size=5))
def test_natural_order_is_total(texts: list[str]) -> None:
    sorted(texts, key=natural)


def test_natural_order_counts() -> None:
    assert sorted(["A2-16Q", "A2-8Q", "A2-1B"], key=natural) == ["A2-1B", "A2-8Q", "A2-16Q"]
    sorted(["9" * 10_000, "1"], key=natural)


@pytest.mark.parametrize(
    ("name", "called"),
    [("NVIDIA A2-4Q", "A2-4Q"), ("GRID A100-2-10C", "A100-2-10C"), ("A2-4Q", "A2-4Q"), ("", "")],
)
def test_a_profile_is_called_by_the_last_word_of_its_name(name: str, called: str) -> None:
    assert short_name(name) == called
