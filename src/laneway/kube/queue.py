"""A work queue of keys, with the guarantees that reconcilers are written against.

- A key that is added many times before it is taken is given to a worker once.
- A key is never given to two workers at once. Added while it is being worked on, it is given out
again as soon as it is done, so no change is missed and none is worked on with stale facts.
- Failures wait exponentially longer, per key, up to a limit; one bad key does not slow the others.
- A key for which a user waits does not wait for those that came before it.

Adding is synchronous, so that informer handlers can do it. Time comes from the scheduler, which is
the running event loop unless a test brings its own.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class Timer(Protocol):
    """A callback that has been put off."""

    def cancel(self) -> None: ...


class Scheduler(Protocol):
    """The part of an event loop that keeps time."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[[], None], /) -> Timer: ...


class ShutDownError(Exception):
    """The queue is shut down and empty: the worker that asked can end."""


class WorkQueue(Generic[K]):
    """Keys to be worked on, each at most once at a time."""

    def __init__(
        self, *, base: float = 0.1, cap: float = 300.0, scheduler: Scheduler | None = None
    ) -> None:
        self._base = base
        self._cap = cap
        self._scheduler = scheduler
        self._ready: deque[K] = deque()
        self._first: dict[K, None] = {}
        """Those added as `first` that are still to be given to a worker, in their order."""
        self._dirty: set[K] = set()
        self._active: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, tuple[float, Timer]] = {}
        self._shut_down = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        """How many keys could be taken now."""
        return len(self._ready)

    @property
    def busy(self) -> bool:
        """Whether a key is ready or being worked on; what is put off does not count."""
        return not self._idle.is_set()

    def failures(self, key: K) -> int:
        """How often in a row this key has failed."""
        return self._failures.get(key, 0)

    def add(self, key: K, *, first: bool = False) -> None:
        """Have the key worked on as soon as possible; `first`: before all that are not."""
        if self._shut_down:
            return
        if first:
            self._first[key] = None
        if key in self._dirty:
            return
        self._dirty.add(key)
        self._idle.clear()
        if key not in self._active:
            self._push(key)

    def add_after(self, key: K, delay: float) -> None:
        """Have the key worked on later; of several such desired states the earliest counts."""
        if self._shut_down:
            return
        if delay <= 0:
            self.add(key)
            return
        scheduler = self._scheduler or asyncio.get_running_loop()
        due = scheduler.time() + delay
        if pending := self._timers.get(key):
            if pending[0] <= due:
                return
            pending[1].cancel()
        self._timers[key] = due, scheduler.call_later(delay, lambda: self._fire(key))

    def retry(self, key: K, *, least: float = 0.0, cap: float = math.inf) -> float:
        """Count a failure and have the key worked on again; in how many seconds.

        `least` and `cap` bound this one wait.
        """
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        delay = max(min(self._base * 2.0 ** min(count, 64), self._cap, cap), least)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Count failures from zero again."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """The next key, which must be ended with `done`; ShutDownError when there is none."""
        while not self._ready:
            if self._shut_down:
                raise ShutDownError
            self._wake.clear()
            await self._wake.wait()
        key = self._next()
        self._dirty.discard(key)
        self._active.add(key)
        return key

    def done(self, key: K) -> None:
        """The worker has finished with the key, well or badly."""
        self._active.discard(key)
        if key in self._dirty:
            self._push(key)
        elif not self._dirty and not self._active:
            self._idle.set()

    async def join(self) -> None:
        """Wait until nothing is ready or being worked on; what is put off does not count."""
        await self._idle.wait()

    def shut_down(self) -> None:
        """Take nothing more on; what is ready is still taken, what was put off is dropped."""
        self._shut_down = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._wake.set()

    def _next(self) -> K:
        for key in self._first:
            if key not in self._active:
                del self._first[key]
                self._ready.remove(key)
                return key
        return self._ready.popleft()

    def _push(self, key: K) -> None:
        self._ready.append(key)
        self._wake.set()

    def _fire(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
