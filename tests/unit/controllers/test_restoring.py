"""When a start is over: no plan runs, and nothing that could be done is left."""

from __future__ import annotations

import asyncio
from typing import Any

from laneway.controllers.restoring import restored
from laneway.kube.queue import WorkQueue


class Controller:
    """What is asked of a controller, as a test says it is."""

    def __init__(self) -> None:
        self.published = asyncio.Event()
        self.queue: WorkQueue[str] = WorkQueue()
        self.left = False

    def unmet(self) -> bool:
        return self.left


async def begun(controllers: list[Any]) -> asyncio.Task[None]:
    task = asyncio.create_task(restored(controllers))
    await moment()
    return task


async def moment() -> None:
    """Let others come to where they wait."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_every_object_is_answered_first() -> None:
    one, other = Controller(), Controller()
    one.published.set()
    task = await begun([one, other])
    assert not task.done()

    other.published.set()
    await asyncio.wait_for(task, 30)


async def test_a_running_plan_is_waited_for_by_later_ones() -> None:
    gpus, vgpus = Controller(), Controller()
    for one in (gpus, vgpus):
        one.published.set()
    vgpus.queue.add("vgpu")
    key = await vgpus.queue.get()
    task = await begun([gpus, vgpus])
    gpus.queue.add("gpu")
    vgpus.queue.done(key)
    await moment()
    assert not task.done()

    gpus.queue.done(await gpus.queue.get())
    await asyncio.wait_for(task, 30)


async def test_a_desired_state_that_could_be_met_is_waited_for_without_a_plan() -> None:
    one = Controller()
    one.published.set()
    one.left = True
    task = await begun([one])
    assert not task.done()

    one.left = False
    await asyncio.wait_for(task, 30)
