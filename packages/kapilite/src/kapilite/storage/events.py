"""Changes, and how they reach those who watch.

A change is encoded once, however many watch it: `Event` keeps the line of each served version and
the decoded bodies that selectors and tables need. Each watcher owns a bounded queue. One that
does not keep up is cut off, never waited for: it resumes from its last resourceVersion out of the
log, so memory stays bounded and no other is slowed down.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from kapilite.builtin import convert

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kapilite.kinds import Kind

QUEUE_LIMIT = 5_000
"""Events that may wait for one watcher."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(NamedTuple):
    """Where an object is stored; `namespace` is empty for cluster-scoped ones."""

    resource: str
    namespace: str
    name: str


class Event:
    """One committed change: the object after it (of a deletion: as it was last) and before it."""

    def __init__(
        self, rv: int, change: EventType, key: Key, body: bytes, previous: bytes | None
    ) -> None:
        self.rv = rv
        self.change = change
        self.key = key
        self.body = body
        self.previous = previous
        self._lines: dict[tuple[str, str], bytes] = {}

    @cached_property
    def object(self) -> dict[str, Any]:
        return as_object(self.body)

    @cached_property
    def previous_object(self) -> dict[str, Any] | None:
        return None if self.previous is None else as_object(self.previous)

    def line(self, change: str, kind: Kind) -> bytes:
        """The event as the watch protocol writes it, in the form the client requested."""
        key = (change, kind.api_version)
        line = self._lines.get(key)
        if line is None:
            body = in_form(kind, self.body)
            line = b'{"type":"%s","object":%s}\n' % (change.encode(), body)
            self._lines[key] = line
        return line


def as_object(body: bytes) -> dict[str, Any]:
    """A stored body, decoded."""
    value: dict[str, Any] = msgspec.json.decode(body)
    return value


_HEAD = b'{"apiVersion":"'


def in_form(kind: Kind, body: bytes) -> bytes:
    """A stored object as this kind shows it; bodies are stored with apiVersion first."""
    if kind.view_of:
        return msgspec.json.encode(convert.to_view(kind, as_object(body)))
    api_version = kind.api_version
    wanted = _HEAD + api_version.encode() + b'"'
    if body.startswith(wanted):
        return body
    return wanted + body[body.index(b'"', len(_HEAD)) + 1 :]


class Subscription:
    """The queue of one watcher."""

    def __init__(self, limit: int, on_overflow: Callable[[], None]) -> None:
        self._limit = limit
        self._on_overflow = on_overflow
        self._events: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._alarm: asyncio.TimerHandle | None = None
        self._ended = False

    def offer(self, event: Event) -> None:
        if self._ended:
            return
        if len(self._events) >= self._limit:
            self._events.clear()
            self.end()
            self._on_overflow()
            return
        self._events.append(event)
        self._wake.set()

    def end(self) -> None:
        """Take no more events; those that wait are still delivered."""
        self._ended = True
        self._wake.set()

    @property
    def done(self) -> bool:
        """Nothing waits, and nothing more will come."""
        return self._ended and not self._events

    async def batch(self, until: float) -> list[Event]:
        """Everything that waits; empty when it is `until` by the loop's clock, or at the end."""
        if not self._events and not self._ended:
            self._set_alarm(until)
            await self._wake.wait()
        self._wake.clear()
        events = list(self._events)
        self._events.clear()
        return events

    def close(self) -> None:
        """The watch has ended: no more batches are taken."""
        self.end()
        if self._alarm is not None:
            self._alarm.cancel()

    def _set_alarm(self, until: float) -> None:
        # One serves many batches, which would otherwise cost twice as much as they do.
        if self._alarm is not None and self._alarm.when() == until:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(until, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self._wake.set()


class Fanout:
    """Who watches what."""

    def __init__(self, limit: int = QUEUE_LIMIT) -> None:
        self._limit = limit
        self._watchers: dict[str, set[Subscription]] = defaultdict(set)
        self._closed = False

    def subscribe(self, resource: str, on_overflow: Callable[[], None]) -> Subscription:
        subscription = Subscription(self._limit, on_overflow)
        if self._closed:
            subscription.end()
        self._watchers[resource].add(subscription)
        return subscription

    def unsubscribe(self, resource: str, subscription: Subscription) -> None:
        self._watchers[resource].discard(subscription)
        subscription.close()

    def publish(self, events: Iterable[Event]) -> None:
        for event in events:
            for subscription in self._watchers[event.key.resource]:
                subscription.offer(event)

    def end(self, resource: str) -> None:
        """End the watches of a resource that is no longer served."""
        for subscription in self._watchers[resource]:
            subscription.end()

    def close(self) -> None:
        """End all watches, also those still to come."""
        self._closed = True
        for resource in list(self._watchers):
            self.end(resource)
