"""A shared informer: one list and one watch per collection, a store, and callbacks on change.

The store converges to the collection whatever happens to the connection:

- A list is taken page by page and compared: unchanged objects are skipped, objects that are no
  longer there are removed, so deletions during an outage are seen.
- A watch resumes from the last version seen, bookmarks included. The server limits it in time, with
  jitter, so that many agents do not come back together. One that brings nothing for longer than two
  bookmarks take is resumed on another connection: something between us and the server may keep the
  old one open although nothing comes through any more.
- 410, as an answer or as an event, means a new list. So do three failures in a row: resuming is an
  economy, and a server that was restored from a backup may not know our version at all.
- A server that fails, or closes a watch at once with nothing in it, is asked again after a pause
that grows.

A `quiet` informer makes no call for an object that differs in nothing that is decoded of it: of a
heartbeat nothing follows. The store has its new version all the same.

An object that cannot be decoded is logged, counted and remembered by its key; what is known of it
from before stays in the store, because forgetting it would look like its deletion.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Generic

import msgspec

from laneway.kube.client import PAGE, Client
from laneway.kube.errors import (
    CutOffError,
    GoneError,
    KubeError,
    NotFoundError,
    UndecodableError,
    pause_after,
)
from laneway.kube.resource import Key, Resource, T, T_co, key_of
from laneway.kube.store import Indexer, Store
from laneway.kube.stream import WatchEvent

log = logging.getLogger(__name__)

Handler = Callable[[T | None, T | None], None]
"""Called with the object before and after; None for what is not there."""

RESUMES = 3
BASE_DELAY = 0.8
MAX_DELAY = 30.0
SHORT_WATCH = 1.0
SILENCE = 150.0
"""How long a watch may be silent: servers send a bookmark about every minute."""


@dataclass(slots=True)
class Counts:
    """What an informer has done so far."""

    lists: int = 0
    watches: int = 0
    events: int = 0
    failures: int = 0
    undecodable: int = 0


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    resource_version: str | None = msgspec.field(name="resourceVersion", default=None)


class _Envelope(msgspec.Struct):
    metadata: _Meta


_decode_envelope = msgspec.json.Decoder(_Envelope).decode


class Informer(Generic[T_co]):
    """Keeps a store equal to one collection on the server for as long as `run` runs."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T_co],
        namespace: str = "",
        *,
        indexers: Mapping[str, Indexer[T_co]] | None = None,
        label_selector: str = "",
        field_selector: str = "",
        watch_seconds: int = 300,
        silence: float = SILENCE,
        quiet: bool = False,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store: Store[T_co] = Store(indexers)
        self.synced = asyncio.Event()
        """Set once the store has held a complete list."""
        self.answered = asyncio.Event()
        """Set once that is so, or the server has said that it has no such resource."""
        self.unserved = False
        """Whether the server has no such resource, as far as is known."""
        self.undecodable: dict[Key, str] = {}
        """Objects that exist but cannot be read now, with the reason."""
        self.counts = Counts()
        self._problem: KubeError | None = None
        self._watching_since = math.inf
        self.resource_version = ""
        self._client = client
        self.resource = resource
        self._namespace = namespace
        self.label_selector = label_selector
        self.field_selector = field_selector
        self._watch_seconds = watch_seconds
        self._silence = silence
        self._quiet = quiet
        self._jitter = jitter
        self._clock = clock
        self._sleep = sleep
        self._handlers: list[Handler[T_co]] = []

    @property
    def problem(self) -> KubeError | None:
        """Why changes may have been missed; None once the collection is listed or watched again."""
        if self._clock() - self._watching_since >= SHORT_WATCH:
            return None
        return self._problem

    def subscribe(self, handler: Handler[T_co]) -> None:
        """Call for every change from now on, and at once for every object already known."""
        self._handlers = [*self._handlers, handler]  # another list: it may be called just now
        for obj in self.store:
            self._call(handler, None, obj)

    def follow(self, handler: Callable[[T_co], None]) -> None:
        """The same for callers that need only the object: as it is or, once deleted, was last."""

        def changed(old: T_co | None, new: T_co | None) -> None:
            if (known := new or old) is not None:
                handler(known)

        self.subscribe(changed)

    async def run(self) -> None:
        """Follow the collection until cancelled."""
        failures = 0
        page = PAGE
        while True:
            events = self.counts.events
            self._watching_since = math.inf
            problem: KubeError | None = None
            try:
                if not self.resource_version:
                    await self._list(page)
                    page = PAGE
                self._watching_since = self._clock()
                await self._watch()
            except GoneError as error:
                # While listing: it took longer than the server keeps history. Take it in one piece.
                page = PAGE if self.resource_version else 0
                self.resource_version = ""
                problem = error
            except KubeError as error:
                self.counts.failures += 1
                problem = error
                if isinstance(error, NotFoundError):
                    self.unserved = True
                    self.answered.set()
            lasted = self._clock() - self._watching_since >= SHORT_WATCH
            self._watching_since = math.inf
            ended = problem is None or isinstance(problem, GoneError)
            if not ended:
                self._problem = problem
            if self.counts.events > events or (
                lasted and (ended or isinstance(problem, CutOffError))
            ):
                failures = 0
                if ended:
                    continue
            failures += 1
            if failures % RESUMES == 0 or isinstance(problem, UndecodableError):
                self.resource_version = ""
            await self._pause(failures, problem)

    async def _pause(self, failures: int, problem: KubeError | None) -> None:
        limit = min(BASE_DELAY * 2.0 ** min(failures - 1, 16), MAX_DELAY)
        delay = limit * (1 + self._jitter()) / 2
        if problem is not None:
            delay = pause_after(problem, delay)
        reason = problem or "the server closed the watch at once"
        log.log(self._level(failures), "%s: %s; retrying in %.1f s", self.resource, reason, delay)
        await self._sleep(delay)

    def _level(self, failures: int) -> int:
        """The log level of a failure: that a kind is not served is logged once."""
        if not self.unserved:
            return logging.WARNING
        if failures > 1:
            return logging.DEBUG
        return logging.INFO if self.resource.optional else logging.WARNING

    async def _list(self, limit: int) -> None:
        self.counts.lists += 1
        seen: set[Key] = set()
        version = ""
        pages = self._client.list(
            self.resource,
            self._namespace,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            limit=limit,
        )
        async with aclosing(pages):
            async for page in pages:
                for raw in page.items:
                    if key := self._apply(raw)[0]:
                        seen.add(key)
                version = page.resource_version
        for key in (self.store.keys() | self.undecodable.keys()) - seen:
            self._remove(key)
        self.resource_version = version
        self.unserved = False
        self._problem = None
        self.synced.set()
        self.answered.set()

    async def _watch(self) -> None:
        self.counts.watches += 1
        seconds = int(self._watch_seconds * (1 + self._jitter()))
        events = self._client.watch(
            self.resource,
            self._namespace,
            resource_version=self.resource_version,
            label_selector=self.label_selector,
            field_selector=self.field_selector,
            server_seconds=seconds,
            read_seconds=self._silence,
        )
        async with aclosing(events):
            async for event in events:
                self.counts.events += 1
                self._problem = None
                self._on_event(event)

    def _on_event(self, event: WatchEvent) -> None:
        match event.type:
            case "ADDED" | "MODIFIED":
                version = self._apply(event.object)[1]
            case "DELETED":
                key, version = _identify(event.object)
                if key is not None:
                    self._remove(key)
            case "BOOKMARK":
                version = _identify(event.object)[1]
            case _:
                return
        self.resource_version = version or self.resource_version

    def _apply(self, raw: msgspec.Raw) -> tuple[Key | None, str]:
        """Take an object in; its key and version, as far as they can be read."""
        try:
            obj = self.resource.decode(raw)
            key, version = key_of(obj), obj.metadata.resource_version
            known = self.store.at(key)
            if known is None or known.metadata.resource_version != version:
                if known is not None and known.metadata.uid != obj.metadata.uid:
                    # Deleted and made again while we were not looking: two changes, not one.
                    self._remove(key)
                old = self.store.put(obj, key)
                if old is None or not (self._quiet and _alike(old, obj)):
                    self._notify(old, obj)
        except Exception as error:  # noqa: BLE001  whatever is wrong with it, others must go on
            return self._set_aside(raw, error)
        if self.undecodable:
            self.undecodable.pop(key, None)
        return key, version

    def _set_aside(self, raw: msgspec.Raw, error: Exception) -> tuple[Key | None, str]:
        key, version = _identify(raw)
        reason = " ".join(str(error).split()) or type(error).__name__
        self.counts.undecodable += 1
        if key is None or self.undecodable.get(key) != reason:
            log.error("%s %s cannot be read: %s", self.resource, key or "(no name)", reason)
        if key is not None:
            self.undecodable[key] = reason
        return key, version

    def _remove(self, key: Key) -> None:
        self.undecodable.pop(key, None)
        old = self.store.drop(key)
        if old is not None:
            self._notify(old, None)

    def _notify(self, old: T_co | None, new: T_co | None) -> None:
        for handler in self._handlers:
            self._call(handler, old, new)

    def _call(self, handler: Handler[T_co], old: T_co | None, new: T_co | None) -> None:
        try:
            handler(old, new)
        except Exception:
            log.exception("%s: a handler failed", self.resource)


def _alike(one: Any, other: Any) -> bool:
    """Whether two objects differ in nothing but their version."""
    version = other.metadata.resource_version
    same = msgspec.structs.replace(one.metadata, resource_version=version)
    return same == other.metadata and all(
        getattr(one, field) == getattr(other, field)
        for field in one.__struct_fields__
        if field != "metadata"
    )


def _identify(raw: msgspec.Raw) -> tuple[Key | None, str]:
    """Key and version of an object of which nothing else may be readable."""
    try:
        meta = _decode_envelope(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None, ""
    key = Key(meta.namespace or "", meta.name) if meta.name else None
    return key, meta.resource_version or ""
