"""Calls that may wait for ever, made so that callers need not wait with them."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def within(seconds: float, call: Callable[[], T]) -> T:
    """The result of a call in a thread; TimeoutError leaves the thread behind."""
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[T] = loop.create_future()

    def settle(error: BaseException | None, result: T | None = None) -> None:
        if finished.done():
            return
        if error is None:
            finished.set_result(result)  # type: ignore[arg-type]  # a T: no error
        else:
            finished.set_exception(error)

    def run() -> None:
        outcome: tuple[BaseException | None, T | None]
        try:
            outcome = None, call()
        except BaseException as error:  # noqa: BLE001 - handed to the loop, whatever it is
            outcome = error, None
        with contextlib.suppress(RuntimeError):  # the loop has ended: no caller waits any more
            loop.call_soon_threadsafe(settle, *outcome)

    # A daemon thread: a call that never returns must not keep the process from ending.
    threading.Thread(target=run, name="simulated kernel", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await finished
