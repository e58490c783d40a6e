"""Does the work that the store holds: in order, in short slices, until there is none.

The task exists only while there is work. After each slice everybody else has a turn, so a cascade
of thousands of objects delays no request by more than one slice. Work that fails stays in the
store and is tried again; work that was requested again while it was done is done again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from typing import TYPE_CHECKING

from kapilite.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kapilite.storage.store import Store, Work

log = logging.getLogger(__name__)

SLICE_SECONDS = 0.005
RETRY_SECONDS = 5.0


class Worker:
    """One task at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._stopped = False
        self._slice_began = 0.0

    def wake(self, do: Callable[[Work], Awaitable[None]]) -> None:
        """There is work, and this is how to do one piece of it."""
        self._woken.set()
        if self._stopped or (self._task is not None and not self._task.done()):
            return
        with contextlib.suppress(RuntimeError):  # no loop runs yet: `start` comes later
            self._task = asyncio.get_running_loop().create_task(self._run(do))

    async def stop(self) -> None:
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def turn(self) -> None:
        """Called between steps: others have theirs when the slice is over."""
        if time.monotonic() - self._slice_began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            self._slice_began = time.monotonic()

    async def _run(self, do: Callable[[Work], Awaitable[None]]) -> None:
        seen, failed = 0, False
        while not self._store.closed:
            self._woken.clear()
            try:
                batch = self._store.work(after=seen)
            except sqlite3.Error as error:
                log.warning("deletion waits, the store cannot be read: %s", error)
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if not batch:
                if not failed:
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await self._woken.wait()
                        continue
                seen, failed = 0, False
            for work in batch:
                seen = work.number
                await self.turn()
                failed |= not await self._one(do, work)

    async def _one(self, do: Callable[[Work], Awaitable[None]], work: Work) -> bool:
        try:
            await do(work)
            self._store.finish(work)
        except ApiError as error:
            log.warning("deletion waits: %s", error, extra={"resource": work.key.resource})
            return False
        except Exception:
            if not self._store.closed:
                log.exception("deletion failed", extra={"resource": work.key.resource})
            return False
        return True
