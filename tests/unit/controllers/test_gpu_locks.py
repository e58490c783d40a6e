"""One plan at a time on a card; waiting callers are called, in order and once."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.controllers.gpu_locks import GpuLocks
from laneway.core.pci import PciAddress

CARD, OTHER = PciAddress(0, 8, 0, 0), PciAddress(0, 9, 0, 0)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abcd")), max_size=20))
def test_a_caller_of_a_busy_card_is_called_once_it_is_free(
    callers: list[tuple[int, str]],
) -> None:
    locks, called = GpuLocks(), list[str]()
    with locks.on(CARD, ("GPU", "first"), lambda: called.append("first")) as mine:
        assert mine
        waiting = []
        for card, name in callers:
            with locks.on(
                (CARD, OTHER)[card], ("vGPU", name), lambda n=name: called.append(n)
            ) as free:  # type: ignore[misc]
                assert free is (card == 1)
            if card == 0 and name not in waiting:
                waiting.append(name)
        assert called == []
    assert called == waiting
    with locks.on(CARD, ("vGPU", "later"), lambda: None) as free:
        assert free


def test_a_turn_that_fails_is_over() -> None:
    locks, called = GpuLocks(), list[str]()
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(RuntimeError))
        stack.enter_context(locks.on(CARD, ("GPU", "one"), lambda: None))
        stack.enter_context(locks.on(CARD, ("GPU", "two"), lambda: called.append("two")))
        raise RuntimeError
    assert called == ["two"]


def test_a_plan_about_several_cards_has_all_of_them_or_none() -> None:
    locks, called = GpuLocks(), list[str]()
    with locks.on(OTHER, ("GPU", "one"), lambda: None):
        with locks.acquire_all(
            (CARD, OTHER), ("group", "both"), lambda: called.append("both")
        ) as mine:
            assert not mine
            assert not locks.busy(CARD)
        assert called == []
    assert called == ["both"]
    with locks.acquire_all((CARD, OTHER), ("group", "both"), lambda: None) as mine:
        assert mine
        with locks.on(OTHER, ("GPU", "one"), lambda: called.append("one")) as free:
            assert not free
    assert called == ["both", "one"]
