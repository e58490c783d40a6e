"""A few threads that ask vCenter, each over a connection of its own, and never the event loop.

pyVmomi blocks and is not thread-safe, so every thread has its own stub; what they share is the
session (`session.py`). Each call has a time limit. When that is over, or the caller is cancelled,
the connection under the call is severed: the thread comes free at once, however slowly a server
drips its answer. Threads are daemons: one that hangs in the look-up of a name holds up no exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

from laneway.vsphere.port import UnreachableVCenterError
from laneway.vsphere.vcenter.session import Session
from laneway.vsphere.vcenter.stub import Stub

T = TypeVar("T")


class _Job(Generic[T]):
    def __init__(self, work: Callable[[Stub], T]) -> None:
        self.work = work
        self.loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[T] = self.loop.create_future()
        self.lock = threading.Lock()
        self.stub: Stub | None = None  # while a thread is at it
        self.cancelled = False

    def give_up(self) -> None:
        with self.lock:
            self.cancelled = True
            if self.stub is not None:
                self.stub.sever()

    def begin(self, stub: Stub) -> bool:
        with self.lock:
            stub.severed = self.cancelled
            self.stub = stub
            return not self.cancelled

    def end(self, result: T | None, error: Exception | None) -> None:
        with self.lock:
            self.stub = None
        with contextlib.suppress(RuntimeError):  # the loop has ended, and who asked with it
            self.loop.call_soon_threadsafe(self._resolve, result, error)

    def _resolve(self, result: Any, error: Exception | None) -> None:
        if self.answer.done():
            return
        if error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(result)


class Workers:
    """At most `size` threads; they start as they are needed."""

    def __init__(self, session: Session, size: int) -> None:
        self._session = session
        self._size = size
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._threads = 0
        self._busy = 0
        self._closed = False

    async def run(self, ask: Callable[[Stub], T], *, limit: float, again: bool = True) -> T:
        """What `ask` returns; it runs on a thread. `again`: it may be repeated in a new session."""
        if self._closed:
            raise UnreachableVCenterError(f"the connection to {self._session.server} was closed")
        return await self._done(_Job(partial(self._session.ask, ask=ask, again=again)), limit)

    async def leave(self, *, limit: float) -> None:
        """End the session, for all threads that share it."""
        await self._done(_Job(self._session.leave), limit)

    async def _done(self, job: _Job[T], limit: float) -> T:
        self._busy += 1
        try:
            if self._threads < min(self._busy, self._size):
                self._threads += 1
                name = f"vcenter-{self._session.server}-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
            self._jobs.put(job)
            async with asyncio.timeout(limit):
                return await job.answer
        except TimeoutError:
            job.give_up()
            raise UnreachableVCenterError(
                f"{self._session.server} has not answered within {limit:.0f} s"
            ) from None
        except asyncio.CancelledError:
            job.give_up()
            raise
        finally:
            self._busy -= 1

    def close(self) -> None:
        """Let the threads end when they have done what they are at."""
        self._closed = True
        for _ in range(self._threads):
            self._jobs.put(None)

    def _work(self) -> None:
        stub = self._session.stub()
        while (job := self._jobs.get()) is not None:
            if not job.begin(stub):
                continue
            try:
                result = job.work(stub)
            except Exception as error:  # noqa: BLE001 - it belongs to the caller
                job.end(None, error)
            else:
                job.end(result, None)
        stub.DropConnections()
