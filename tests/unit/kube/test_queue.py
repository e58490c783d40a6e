"""The laws of the work queue, on a clock that the tests turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from laneway.kube.queue import ShutDownError, WorkQueue


class Clock:
    """A scheduler whose time stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Clock.Timer] = []

    class Timer:
        def __init__(self, due: float, callback: Callable[[], None]) -> None:
            self.due, self.callback, self.live = due, callback, True

        def cancel(self) -> None:
            self.live = False

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Clock.Timer:
        timer = Clock.Timer(self.now + delay, callback)
        self.timers.append(timer)
        return timer

    def turn(self, seconds: float) -> None:
        self.now += seconds
        due = sorted((it for it in self.timers if it.due <= self.now), key=lambda it: it.due)
        for timer in due:
            self.timers.remove(timer)
            if timer.live:
                timer.callback()


def take(queue: WorkQueue[Any]) -> Any:
    """The next key of a queue that is known to have one: nothing to wait for."""
    with pytest.raises(StopIteration) as stop:
        queue.get().send(None)
    return stop.value.value


KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """`owed` are keys with an add that no worker has begun to answer, `first` those waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.queue: WorkQueue[str] = WorkQueue(base=1.0, cap=8.0, scheduler=self.clock)
        self.owed: set[str] = set()
        self.first: list[str] = []
        self.active: set[str] = set()
        self.due: dict[str, float] = {}
        self.failed: dict[str, int] = {}

    def later(self, key: str, delay: float) -> None:
        when = self.clock.now + delay
        self.due[key] = min(self.due.get(key, when), when)

    @rule(key=KEYS, first=st.booleans())
    def add(self, key: str, first: bool) -> None:
        self.queue.add(key, first=first)
        self.owed.add(key)
        if first and key not in self.first:
            self.first.append(key)

    @rule(key=KEYS, delay=st.integers(1, 5))
    def add_after(self, key: str, delay: int) -> None:
        self.queue.add_after(key, delay)
        self.later(key, delay)

    @rule(key=KEYS)
    def retry(self, key: str) -> None:
        count = self.failed[key] = self.failed.get(key, 0) + 1
        delay = self.queue.retry(key)
        assert delay == min(2.0 ** (count - 1), 8.0)
        self.later(key, delay)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.failed.pop(key, None)

    @precondition(lambda self: self.owed - self.active)
    @rule()
    def get(self) -> None:
        key = take(self.queue)
        assert key in self.owed
        assert key not in self.active
        waited_for = [one for one in self.first if one not in self.active]
        assert not waited_for or key == waited_for[0]
        self.first = [one for one in self.first if one != key]
        self.owed.discard(key)
        self.active.add(key)

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.active)))
        self.queue.done(key)
        self.active.discard(key)

    @rule(seconds=st.integers(1, 4))
    def wait(self, seconds: int) -> None:
        self.clock.turn(seconds)
        for key in [key for key, when in self.due.items() if when <= self.clock.now]:
            del self.due[key]
            self.owed.add(key)

    @invariant()
    def what_can_be_taken_is_what_is_owed_and_idle(self) -> None:
        assert len(self.queue) == len(self.owed - self.active)
        for key in "abcd":
            assert self.queue.failures(key) == self.failed.get(key, 0)


TestQueue = QueueMachine.TestCase


async def test_keys_come_in_the_order_of_their_first_add() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abac":
        queue.add(key)

    assert [await queue.get() for _ in range(3)] == ["a", "b", "c"]


async def test_what_a_user_waits_for_comes_before_what_came_earlier() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in "abcd":
        queue.add(key)
    queue.add("c", first=True)
    queue.add("e", first=True)

    assert [await queue.get() for _ in range(5)] == ["c", "e", "a", "b", "d"]


async def test_waiting_workers_are_woken_by_an_add() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)

    queue.add("a")
    queue.add("b")

    assert set(await asyncio.gather(*workers)) == {"a", "b"}


async def test_shut_down_still_yields_what_is_ready_and_nothing_more() -> None:
    clock = Clock()
    queue: WorkQueue[str] = WorkQueue(scheduler=clock)
    queue.add("a")
    queue.add_after("b", 1)

    queue.shut_down()
    queue.add("c")
    queue.add_after("d", 1)
    clock.turn(5)

    assert await queue.get() == "a"
    with pytest.raises(ShutDownError):
        await queue.get()


async def test_shut_down_ends_workers_that_wait() -> None:
    queue: WorkQueue[str] = WorkQueue()
    workers = [asyncio.create_task(queue.get()) for _ in range(2)]
    await asyncio.sleep(0)

    queue.shut_down()

    ended = await asyncio.gather(*workers, return_exceptions=True)
    assert [type(one) for one in ended] == [ShutDownError, ShutDownError]


def test_endless_failures_stay_at_the_limit() -> None:
    queue: WorkQueue[str] = WorkQueue(base=1.0, cap=300.0, scheduler=Clock())

    delays = [queue.retry("a") for _ in range(2000)]

    assert delays[:4] == [1.0, 2.0, 4.0, 8.0]
    assert delays[-1] == 300.0
