"""Workers go on whatever one key does to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ApiError, ConflictError, UnreachableError
from laneway.kube.queue import WorkQueue


class Immediately:
    """A scheduler that notes delays and does not wait."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def time(self) -> float:
        return 0.0

    def call_later(self, delay: float, callback: Callable[[], None]) -> asyncio.Handle:
        self.delays.append(delay)
        return asyncio.get_running_loop().call_soon(callback)


async def test_a_failure_is_logged_with_its_reason_and_tried_again_later_each_time(caplog) -> None:
    clock = Immediately()
    queue: WorkQueue[str] = WorkQueue(base=1.0, scheduler=clock)
    failures = [ConflictError(409, "Conflict", "it has changed"), RuntimeError("a bug")]

    async def reconcile(key: str) -> None:
        if failures:
            raise failures.pop(0)
        queue.shut_down()

    queue.add("key-1")
    await run_workers(queue, reconcile, 2)

    assert clock.delays == [1.0, 2.0]
    assert queue.failures("key-1") == 0
    assert "key-1: it has changed (409 Conflict)" in caplog.text
    assert "a bug" in caplog.text


async def test_a_key_waits_as_long_as_the_server_says_and_not_for_long_after_an_outage() -> None:
    clock = Immediately()
    queue: WorkQueue[str] = WorkQueue(base=1.0, scheduler=clock)
    put_off = ApiError(429, "TooManyRequests", "too many", retry_after=32.0)
    away = [UnreachableError("no answer"), ApiError(503, "", "starting")]
    failures = [put_off, *away, *away, *away, away[0], RuntimeError("a bug")]

    async def reconcile(key: str) -> None:
        if failures:
            raise failures.pop(0)
        queue.shut_down()

    queue.add("key-1")
    await run_workers(queue, reconcile)

    assert clock.delays == [32.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 256.0]


async def test_retry_comes_back_when_it_says_and_is_no_failure() -> None:
    clock = Immediately()
    queue: WorkQueue[str] = WorkQueue(scheduler=clock)
    results = [Retry(7), Retry(9), None]

    async def reconcile(key: str) -> Retry | None:
        if len(results) == 1:
            queue.shut_down()
        return results.pop(0)

    queue.add("a")
    await run_workers(queue, reconcile)

    assert clock.delays == [7, 9]


async def test_a_key_is_never_with_two_workers() -> None:
    queue: WorkQueue[str] = WorkQueue()
    inside: set[str] = set()
    rounds = 0

    async def reconcile(key: str) -> None:
        nonlocal rounds
        assert key not in inside
        inside.add(key)
        queue.add(key)
        await asyncio.sleep(0)
        inside.remove(key)
        rounds += 1
        if rounds == 50:
            queue.shut_down()

    for key in "ab":
        queue.add(key)
    await run_workers(queue, reconcile, 4)

    assert rounds >= 50
    assert not any(queue.failures(key) for key in "ab")
