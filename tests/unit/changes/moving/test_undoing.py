"""What is undone, in which order, and whatever happens meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from laneway.changes.errors import ChangeError
from laneway.changes.moving.undoing import Undo


def noting(order: list[str], name: str) -> Callable[[], Awaitable[None]]:
    async def call() -> None:
        order.append(name)

    return call


async def test_the_last_step_is_undone_first_and_what_is_put_last_at_the_end() -> None:
    undo, order = Undo(), list[str]()
    undo.add("make room", noting(order, "room"))
    undo.add("start it again", noting(order, "start"), last=True)
    undo.add("unpin it", noting(order, "unpin"))
    assert await undo.run(lambda _: None, 1) == ()
    assert order == ["unpin", "room", "start"]


async def test_a_step_that_cannot_be_undone_is_told_and_the_others_are_undone() -> None:
    async def refused() -> None:
        raise ChangeError("a VM has it")

    undo, order = Undo(), list[str]()
    undo.add("start it again", noting(order, "start"))
    undo.add("remove the vGPU", refused)
    undo.add("wait for ever", asyncio.Event().wait)
    assert await undo.run(lambda _: None, 0.01) == (
        "could not wait for ever: not finished within 0 s",
        "could not remove the vGPU: a VM has it",
    )
    assert order == ["start"]


async def test_what_is_done_for_good_is_not_undone() -> None:
    undo, order = Undo(), list[str]()
    undo.add("start it again", noting(order, "start"))
    undo.forget()
    await undo.run(lambda _: None, 1)
    assert order == []


@pytest.mark.parametrize("cancellations", [1, 3])
async def test_a_cancellation_does_not_stop_it_half_way(cancellations: int) -> None:
    begun, goes_on, undo, order = asyncio.Event(), asyncio.Event(), Undo(), list[str]()
    told: asyncio.Queue[str] = asyncio.Queue()

    async def slow() -> None:
        begun.set()
        await goes_on.wait()
        order.append("slow")

    undo.add("start it again", noting(order, "start"))
    undo.add("remove the vGPU", slow)
    running = asyncio.create_task(undo.run(told.put_nowait, 60))
    await begun.wait()
    assert await told.get() == "undoing: remove the vGPU"
    for _ in range(cancellations):
        running.cancel()
        assert await told.get() == "interrupted again; what was begun is undone first"
    goes_on.set()
    assert await running == ()
    assert order == ["slow", "start"]
