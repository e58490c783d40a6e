"""Requests that come, wait and go: against the formulas of queueing theory."""

from __future__ import annotations

from itertools import pairwise
from math import factorial

import pytest

from laneway.core.packing.churn import by_policy
from laneway.core.packing.over_time import Requests, Result, over_time
from laneway.core.packing.policy import depth
from laneway.core.packing.room import board_of
from laneway.core.vgpu.card import card_of

SAME = board_of(card_of("26b9"), mixed=False)
SIZE = next(n for n, kind in enumerate(SAME.kinds) if kind.framebuffer_mib == 12 * 1024)
PLACES = SAME.kinds[SIZE].maximum
ONLY = tuple(float(n == SIZE) for n in range(len(SAME.kinds)))
MIXED = tuple(float(kind.framebuffer_mib in (8192, 24576)) for kind in SAME.kinds)


def run(weights: tuple[float, ...], pace: float, patience: float, arrivals: int = 5000) -> Result:
    decide = by_policy(SAME, depth, lowest=True)
    asked = Requests(weights, pace, patience)
    return over_time([SAME] * 2, asked, decide, seed=1, arrivals=arrivals, before=500)


def lost(places: int, pace: float) -> float:
    """Erlang's formula for those that are refused where none waits."""
    terms = [pace**n / factorial(n) for n in range(places + 1)]
    return terms[-1] / sum(terms)


def delayed(places: int, pace: float) -> float:
    """Erlang's formula for those that wait where none gives up."""
    loss = lost(places, pace)
    return loss / (1 - pace / places * (1 - loss))


def test_who_does_not_wait_is_refused_as_often_as_erlang_says() -> None:
    found = run(ONLY, pace=6.0, patience=0)
    one = found.sizes[SIZE]
    assert one.served / one.asked == pytest.approx(1 - lost(2 * PLACES, 6.0), abs=0.02)
    assert found.used == pytest.approx(6.0 * (1 - lost(2 * PLACES, 6.0)) * 12, rel=0.05)
    assert one.waited == 0


def test_who_never_gives_up_waits_as_often_and_as_long_as_erlang_says() -> None:
    one = run(ONLY, pace=6.0, patience=1000).sizes[SIZE]
    assert one.served == one.asked
    assert one.waited / one.asked == pytest.approx(delayed(2 * PLACES, 6.0), abs=0.05)
    assert one.waiting / one.waited == pytest.approx(1 / (2 * PLACES - 6.0), rel=0.15)


def test_the_longer_requests_wait_the_more_are_served_and_none_waits_longer() -> None:
    results = [run(MIXED, pace=8.0, patience=patience, arrivals=3000) for patience in (0, 0.2, 1)]
    served = [sum(one.served for one in result.sizes) for result in results]
    assert all(less < more for less, more in pairwise(served))
    assert all(one.waiting <= 0.2 * one.waited for one in results[1].sizes)
    assert all(one.served <= one.asked for result in results for one in result.sizes)
