"""A bounded queue before a receiver that may be slow or away.

Putting something in never waits and never raises. A thread of its own delivers, several at once
where several wait, and tries again for a while where the receiver does not take them. What finds no
room, or is given up, is counted. The log tells once that a receiver does not take anything, and
once that it does again.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import Counter

from laneway.roles.telemetry.errors import SendError

log = logging.getLogger(__name__)

T = TypeVar("T")
Deliver = Callable[[Sequence[T]], None]
"""Hands a batch over, in a thread. Raises SendError."""


class Limits(NamedTuple):
    """How much waits, and how long."""

    room: int = 10_000
    batch: int = 500
    first_pause: float = 1.0
    longest_pause: float = 30.0
    """Seconds between two attempts."""
    patience: float = 300.0
    """Seconds until a batch is given up."""
    closing: float = 5.0
    """Seconds for what is left when the process ends."""


class Outbox(Generic[T]):
    """What is on its way to one receiver."""

    def __init__(
        self,
        deliver: Deliver[T],
        what: str,
        unsent: Counter,
        *,
        kept: str = "",
        limits: Limits = Limits(),  # noqa: B008 - immutable
    ) -> None:
        """`what`: for the log, `traces to http://collector:4318`; `kept`: where it still is."""
        self._deliver = deliver
        self._what = what
        self._kept = kept
        self._unsent = unsent
        self._limits = limits
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._failing = False
        self._full = False
        self._thread = threading.Thread(target=self._run, name="laneway-outbox", daemon=True)

    def put(self, item: T) -> None:
        """Have it delivered."""
        with self._changed:
            is_full = len(self._items) >= self._limits.room
            first, self._full = is_full and not self._full, is_full
            if not is_full:
                self._items.append(item)
                self._changed.notify()
        if is_full:
            self._unsent.inc()
        if first:
            log.warning(
                "%s: %d wait to be sent, and there is no room for more%s",
                self._what,
                self._limits.room,
                self._kept,
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[Outbox[T]]:
        """Deliver until the block ends, and what is left for some seconds more."""
        self._thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._closing = True
                self._changed.notify()
            self._thread.join(self._limits.closing)
            if self._items:
                self._unsent.inc(len(self._items))
                log.warning(
                    "%s: %d are not sent, because the process ends%s",
                    self._what,
                    len(self._items),
                    self._kept,
                )

    def _run(self) -> None:
        while batch := self._next():
            is_sent = self._is_sent(batch)
            if self._closing and not is_sent:
                return  # `running` counts what is left
            if not is_sent:
                self._unsent.inc(len(batch))
            with self._changed:
                for _ in batch:
                    self._items.popleft()

    def _next(self) -> list[T]:
        """What is to be sent, which stays in the queue until it is; empty at the end."""
        with self._changed:
            while not self._items and not self._closing:
                self._changed.wait()
            return list(itertools.islice(self._items, self._limits.batch))

    def _is_sent(self, batch: Sequence[T]) -> bool:
        """Whether the receiver has taken a batch, sooner or later."""
        pause, until = self._limits.first_pause, time.monotonic() + self._limits.patience
        while True:
            try:
                self._deliver(batch)
            except SendError as error:
                self._tell_failure(str(error))
            except Exception as error:  # a defect of a library must not end the thread
                log.debug("%s", self._what, exc_info=True)
                self._tell_failure(str(error) or type(error).__name__)
            else:
                if self._failing:
                    log.warning("%s: they are accepted again", self._what)
                self._failing = False
                return True
            if self._closing or time.monotonic() + pause > until:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._closing, pause)
            pause = min(2 * pause, self._limits.longest_pause)

    def _tell_failure(self, why: str) -> None:
        if not self._failing:
            log.warning(
                "%s are not accepted: %s. Laneway goes on with its work, and tries again%s",
                self._what,
                why,
                self._kept,
            )
        self._failing = True
