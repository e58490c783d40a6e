"""Events on objects, as `kubectl describe` shows them.

Recording never waits and never fails: an event goes into a bounded buffer, a task writes it, and
what cannot be written is logged and dropped. The same event on the same object is counted on the
one already there, and an object that keeps on producing events is limited, so that a fault in a
loop costs the cluster nothing.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from laneway.api import ObjectMeta, timestamp
from laneway.kube.client import Client
from laneway.kube.errors import KubeError, NotFoundError
from laneway.kube.resource import ObjectRef, Resource

log = logging.getLogger(__name__)

BUFFER = 1000
KNOWN = 4096
BURST = 25.0
REFILL_SECONDS = 300.0
MESSAGE_LIMIT = 1024


class Event(msgspec.Struct, frozen=True):
    """A core/v1 Event, as far as it is read back."""

    metadata: ObjectMeta = ObjectMeta()


EVENTS = Resource("", "v1", "events", True, Event)


class NewEvent(NamedTuple):
    """An event that is to be made."""

    about: ObjectRef
    reason: str
    """One CamelCase word."""
    message: str
    time: str
    warning: bool
    suffix: str
    """What sets its name apart from those of others about the same object."""
    annotations: Mapping[str, str] = {}

    @property
    def namespace(self) -> str:
        """Events about objects that have no namespace are in this one."""
        return self.about.namespace or "default"


class Reporter(NamedTuple):
    """The component that reports events, and where it runs."""

    component: str
    host: str = ""

    def body(self, event: NewEvent) -> dict[str, Any]:
        """An event as the API server takes it."""
        about = event.about
        involved = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
            "resourceVersion": about.resource_version,
        }
        stem = about.name[:200].rstrip("-.")
        metadata: dict[str, Any] = {
            "name": f"{stem}.{event.suffix}",
            "namespace": event.namespace,
        }
        if event.annotations:
            metadata["annotations"] = dict(event.annotations)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": metadata,
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": "Warning" if event.warning else "Normal",
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": event.time,
            "lastTimestamp": event.time,
            "source": self._asdict(),
            "reportingComponent": self.component,
            "reportingInstance": self.host,
        }


class _Occurrence(NamedTuple):
    about: ObjectRef
    warning: bool
    reason: str
    message: str
    time: datetime


@dataclass(slots=True)
class _Written:
    name: str
    count: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled: datetime


def _now() -> datetime:
    return datetime.now(UTC)


class EventRecorder:
    """Writes events in the name of one component on one host."""

    def __init__(
        self,
        client: Client,
        component: str,
        host: str = "",
        *,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        self.dropped = 0
        """Events that were not written: over the limit, over the buffer, or refused."""
        self._client = client
        self._reporter = Reporter(component, host)
        self._clock = clock
        self._buffer: asyncio.Queue[_Occurrence] = asyncio.Queue(BUFFER)
        self._written: OrderedDict[tuple[str, ...], _Written] = OrderedDict()
        self._buckets: OrderedDict[ObjectRef, _Bucket] = OrderedDict()

    def record(self, about: ObjectRef, reason: str, message: str, *, warning: bool = False) -> None:
        """Say that something happened to an object; `reason` is one CamelCase word."""
        now = self._clock()
        if not self._allow(about._replace(resource_version=""), now):
            self.dropped += 1
            return
        try:
            self._buffer.put_nowait(
                _Occurrence(about, warning, reason, message[:MESSAGE_LIMIT], now)
            )
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Write what is recorded until cancelled."""
        while True:
            occurrence = await self._buffer.get()
            try:
                await self._write(occurrence)
            except KubeError as error:
                self.dropped += 1
                log.warning("event %s on %s: %s", occurrence.reason, occurrence.about.name, error)
            except Exception:
                self.dropped += 1
                log.exception("event %s on %s", occurrence.reason, occurrence.about.name)
            finally:
                self._buffer.task_done()

    async def flush(self) -> None:
        """Wait until everything recorded so far is written or dropped; needs `run` to run."""
        await self._buffer.join()

    def _allow(self, about: ObjectRef, now: datetime) -> bool:
        bucket = self._buckets.pop(about, None) or _Bucket(BURST, now)
        gained = (now - bucket.filled).total_seconds() / REFILL_SECONDS
        bucket.tokens = min(BURST, bucket.tokens + gained)
        bucket.filled = now
        _remember(self._buckets, about, bucket)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    async def _write(self, it: _Occurrence) -> None:
        about = it.about
        same = (*about._replace(resource_version=""), str(it.warning), it.reason, it.message)
        namespace = about.namespace or "default"
        written = self._written.pop(same, None)
        if written is not None:
            patch = {"count": written.count + 1, "lastTimestamp": timestamp(it.time)}
            try:
                await self._client.patch(EVENTS, written.name, patch, namespace)
            except NotFoundError:
                pass  # It has expired on the server: a new one follows.
            else:
                _remember(self._written, same, _Written(written.name, written.count + 1))
                return
        body = self._reporter.body(
            NewEvent(
                about,
                it.reason,
                it.message,
                timestamp(it.time),
                warning=it.warning,
                suffix=uuid.uuid4().hex[:16],
            )
        )
        await self._client.create(EVENTS, body, namespace)
        _remember(self._written, same, _Written(body["metadata"]["name"], 1))


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Add as the newest; the oldest goes when there are too many."""
    known[key] = value
    while len(known) > KNOWN:
        known.popitem(last=False)
