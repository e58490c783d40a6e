"""How a role ends: by itself, by a failure, or because it is asked to."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from laneway.roles.stop import run_until_signal


class DeviceError(Exception):
    """A failure that a person must read."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_work_after_its_cleanup(number: signal.Signals) -> None:
    story = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            story.append("cleaned up")

    await run_until_signal(work())
    assert story == ["cleaned up"]


async def test_work_that_ends_by_itself_just_ends() -> None:
    await run_until_signal(asyncio.sleep(0))


async def test_cancellation_without_a_signal_is_not_swallowed() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_until_signal(work())


async def test_failure_comes_out_of_task_groups_as_itself() -> None:
    async def fail() -> None:
        raise DeviceError("the reason")

    async def work() -> None:
        async with asyncio.TaskGroup() as outer:
            outer.create_task(asyncio.Event().wait())
            async with asyncio.TaskGroup() as inner:
                inner.create_task(fail())

    with pytest.raises(DeviceError, match="the reason"):
        await run_until_signal(work())


async def test_several_failures_are_all_reported() -> None:
    async def work() -> None:
        raise ExceptionGroup("", [DeviceError("one"), DeviceError("other")])

    with pytest.raises(ExceptionGroup) as caught:
        await run_until_signal(work())
    assert len(caught.value.exceptions) == 2


async def test_failure_while_stopping_is_reported() -> None:
    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            raise DeviceError("cleanup failed")

    with pytest.raises(DeviceError, match="cleanup failed"):
        await run_until_signal(work())
