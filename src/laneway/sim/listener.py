"""Events on their way from any thread of a simulated host to its listeners."""

from __future__ import annotations

import asyncio
import contextlib

from laneway.core.kernel.uevent import OVERFLOW, Uevent

_MAX_PENDING = 10_000
"""More are lost, and that some were is reported, as the kernel does."""


class Listener:
    """Ends at the event loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Uevent] = asyncio.Queue()

    def put(self, event: Uevent) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended without leaving the context
            self._loop.call_soon_threadsafe(self._arrive, event)

    def _arrive(self, event: Uevent) -> None:
        if self._queue.qsize() >= _MAX_PENDING:
            while not self._queue.empty():
                self._queue.get_nowait()
            event = OVERFLOW
        self._queue.put_nowait(event)

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Uevent:
        return await self._queue.get()
