"""Answers in words: complete where they can be, and never longer than an object can carry."""

from __future__ import annotations

from laneway.controllers.devices.outcome import LONGEST_TEXT, in_words
from laneway.core.refusals import CountInvalid, ModeInvalid


def test_a_few_refusals_are_all_told() -> None:
    refusals = tuple(CountInvalid(f"NVIDIA A2-{size}Q", 0) for size in (1, 2, 4))

    assert in_words(refusals) == " ".join(one.words for one in refusals)


def test_of_thousands_the_first_are_told_and_the_others_counted() -> None:
    refusals = tuple(CountInvalid(f"NVIDIA A2-{size}Q", 0) for size in range(4000))

    text = in_words(refusals)

    assert text.startswith(refusals[0].words)
    reported = sum(one.words in text for one in refusals)
    assert reported > 10
    assert text.endswith(f" Further reasons: {4000 - reported}.")
    assert len(text) < LONGEST_TEXT + 100


def test_one_that_is_too_long_is_cut() -> None:
    text = in_words((ModeInvalid("M" * 100_000), ModeInvalid("")))

    assert len(text) < LONGEST_TEXT + 100
    assert text.endswith(" Further reasons: 1.")
