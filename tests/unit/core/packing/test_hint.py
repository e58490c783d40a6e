"""Weights of nodes: the cheapest node first, whatever the policy's numbers are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.packing.hint import HEAVIEST, MOST, weights

COSTS = st.dictionaries(
    st.text("abcdefgh", min_size=1, max_size=3),
    st.tuples(st.integers(0, 9).map(float), st.integers(-3, 0).map(float)),
    max_size=30,
)


@given(COSTS, st.integers(1, 101))
def test_who_costs_less_weighs_more_and_no_weight_reaches_what_the_pod_prefers(
    costs: dict[str, tuple[float, float]], lightest: int
) -> None:
    found = weights(costs, lightest)

    assert len(found) <= MOST
    assert all(1 <= weight < lightest for weight in found.values())
    for one, weight in found.items():
        for other, cost in costs.items():
            if cost < costs[one]:
                assert found[other] > weight
            if cost == costs[one]:
                assert found.get(other, weight) == weight


def test_the_best_node_has_the_heaviest_weight_and_each_worse_group_half() -> None:
    costs = {"a": (2.0,), "b": (1.0,), "c": (1.0,), "d": (9.0,)}
    assert weights(costs) == {"b": HEAVIEST, "c": HEAVIEST, "a": 50, "d": 25}
    assert weights(costs, lightest=4) == {"b": 3, "c": 3, "a": 1}


@pytest.mark.parametrize("costs", [{}, {"a": (1.0,)}, {"a": (1.0,), "b": (1.0,)}])
def test_without_a_difference_nothing_is_preferred(costs: dict[str, tuple[float, ...]]) -> None:
    assert weights(costs) == {}


def test_a_pod_whose_own_preference_weighs_least_possible_gets_none() -> None:
    assert weights({"a": (1.0,), "b": (2.0,)}, lightest=1) == {}
