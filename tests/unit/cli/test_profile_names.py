"""Profiles as people write them, and lists of them as people read them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.cli.errors import Failure
from laneway.cli.profile_names import MOST, desired, in_full
from laneway.views.profiles import counts, room

KNOWN = ("NVIDIA A2-4Q", "NVIDIA A2-4C", "NVIDIA A2-8Q", "GRID A100-4C", "NVIDIA A100-4C")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["A2-4Q"], {"A2-4Q": 1}),
        (["NVIDIA A2-4Q=2"], {"NVIDIA A2-4Q": 2}),
        (["A2-4Q", "A2-4Q=2", " A2-8Q "], {"A2-4Q": 3, "A2-8Q": 1}),
        (["none"], {}),
        (["NONE"], {}),
        ([f"A2-1B={MOST}"], {"A2-1B": MOST}),
    ],
)
def test_what_is_requested(values: list[str], wanted: dict[str, int]) -> None:
    assert desired(values) == wanted


@pytest.mark.parametrize(
    "values",
    [
        [""],
        ["=2"],
        ["A2-4Q="],
        ["A2-4Q=0"],
        ["A2-4Q=-1"],
        [f"A2-4Q={MOST + 1}"],
        [f"A2-4Q={MOST}", "A2-4Q"],
        ["A2-4Q=2=3"],
        ["A2-4Q=٣"],
        ["A2-4Q\x1b"],
        ["none", "A2-4Q"],
        ["none=0"],
        ["none=3"],
    ],
)
def test_what_requests_nothing_sensible_is_refused(values: list[str]) -> None:
    with pytest.raises(click.BadParameter):
        desired(values)


@given(st.lists(st.text(max_size=20), max_size=4))
def test_any_text_is_a_request_or_is_refused(values: list[str]) -> None:
    try:
        wanted = desired(values)
    except click.BadParameter:
        return
    assert all(name.isprintable() and 1 <= count <= MOST for name, count in wanted.items())


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("A2-4Q", "NVIDIA A2-4Q"),
        ("a2-4q", "NVIDIA A2-4Q"),
        ("NVIDIA A2-4Q", "NVIDIA A2-4Q"),
        ("nvidia  a2-4q", "NVIDIA A2-4Q"),
        ("GRID A100-4C", "GRID A100-4C"),
        ("NVIDIA B300-12Q", "NVIDIA B300-12Q"),
    ],
)
def test_a_short_name_stands_for_the_one_profile_that_ends_with_it(text: str, name: str) -> None:
    assert in_full({text: 2}, KNOWN) == {name: 2}


def test_two_spellings_of_a_profile_are_counted_together() -> None:
    assert in_full({"A2-4Q": 1, "NVIDIA A2-4Q": 2}, KNOWN) == {"NVIDIA A2-4Q": 3}


@pytest.mark.parametrize(
    ("text", "known", "words"),
    [
        ("A100-4C", KNOWN, "GRID A100-4C, NVIDIA A100-4C"),
        ("4Q", KNOWN, "Did you mean|Its profiles are"),
        ("A2-4Q", (), "write the name in full"),
    ],
)
def test_a_short_name_that_tells_too_little_is_refused(
    text: str, known: tuple[str, ...], words: str
) -> None:
    with pytest.raises(Failure, match=words) as refused:
        in_full({text: 1}, known)
    assert text in refused.value.message


def test_counts_are_in_order_and_leave_out_what_there_is_none_of() -> None:
    found = {"NVIDIA A2-16Q": 1, "NVIDIA A2-2Q": 3, "NVIDIA A2-4Q": 0}
    assert counts(found) == "A2-2Q=3, A2-16Q=1"
    assert counts({}) == ""


def test_room_takes_the_series_of_a_size_together() -> None:
    fits = {
        "NVIDIA A2-8Q": 2,
        "NVIDIA A2-1B": 16,
        "NVIDIA A2-1Q": 16,
        "NVIDIA A2-2Q": 0,
        "NVIDIA A2-8C": 1,
        "GRID A100-1-5CME": 1,
    }
    assert room(fits) == "16 x A2-1B/Q or 1 x A2-8C or 2 x A2-8Q or 1 x A100-1-5CME"


@given(st.dictionaries(st.text(max_size=12), st.integers(0, 64), max_size=6))
def test_every_profile_with_room_is_reported_with_its_count(fits: dict[str, int]) -> None:
    assert bool(room(fits)) == any(fits.values())
