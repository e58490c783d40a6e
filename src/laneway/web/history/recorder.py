"""Recording who holds what, as the caches learn it, for as long as the interface runs.

Only allocations that an agent has reported are recorded: the ledger also says which device a VM is
likely to have, and that is no history. Changes are gathered for a moment and written in a thread.

Recording stops while the API server does not answer, while a watch may miss changes, and while the
file cannot be written. When it goes on, the time between is a gap (`Store.begin`). A node whose
agent does not report has a gap of its own (`silences`); what changes there meanwhile, because an
agent begins to report or an object is removed, happened at a time that was not observed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from laneway.controllers.ledger import devices
from laneway.core.history import Hold
from laneway.core.ledger.facts import Consumer, DeviceFact
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, T, key_of
from laneway.views.gpus import gpu_name
from laneway.web.caches import Caches, parent_of
from laneway.web.history.finding import Found, Query
from laneway.web.history.silences import Silences, silent
from laneway.web.history.store import Event, Keeping, Silence, Store, UnusableError
from laneway.web.server_state import ServerState

R = TypeVar("R")

log = logging.getLogger(__name__)

GATHER_SECONDS = 0.5
SEEN_SECONDS = 10.0
"""So often the file is told that everything is observed; a process that is killed loses as much."""
TRIM_SECONDS = 60.0
AGENTS_SECONDS = 2.0
"""So often it is looked which agents report."""
RETRY_SECONDS = 10.0


class History:
    """The history of one interface. Run `run` in a task, and the caches in others."""

    def __init__(
        self,
        caches: Caches,
        server: ServerState,
        keeping: Keeping,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.keeping = keeping
        self.problem = ""
        """Why nothing is recorded now."""
        self.set_aside = ""
        """Where an earlier file is that could not be used."""
        self._caches, self._server = caches, server
        self._clock = clock
        self._store: Store | None = None
        self._holds: dict[tuple[str, Key], Hold] = {}
        self._changes: list[Event | Silence] = []
        self._silences = Silences()
        self.changed = asyncio.Event()
        """Set once the history is another."""
        self._listeners: list[Callable[[], None]] = []
        self.recording = False
        """Whether changes are recorded now."""
        self._due = {"seen": 0.0, "trim": 0.0, "retry": 0.0, "agents": 0.0}
        self._informers: list[Informer[Any]] = [
            caches.claims,
            caches.usb_claims,
            caches.vgpus,
            caches.device_nodes,
            caches.nodes,
            caches.agents,
        ]
        self._follow("claims", caches.claims, devices.of_claim)
        self._follow("usb_claims", caches.usb_claims, devices.of_usb_claim)
        self._follow("vgpus", caches.vgpus, devices.of_vgpu)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call whenever the history is another."""
        self._listeners.append(listener)

    @property
    def now(self) -> int:
        """In milliseconds."""
        return int(self._clock() * 1000)

    async def run(self) -> None:
        """Record until cancelled."""
        for informer in self._caches.all.values():
            await informer.answered.wait()
        try:
            while True:
                if self._clock() >= self._due["retry"]:
                    await self._turn()
                await asyncio.sleep(GATHER_SECONDS)
        finally:
            self._end()

    async def places(self) -> frozenset[Consumer]:
        """Each kind of holder and namespace in the history. Raises UnusableError."""
        return await self._read(Store.places)

    async def find(self, query: Query, allowed: Iterable[Consumer] | None) -> Found:
        """What the history has. Raises UnusableError."""
        return await self._read(lambda store: store.find(query, allowed))

    async def _read(self, read: Callable[[Store], R]) -> R:
        store = self._store
        if store is None:
            raise UnusableError(self.problem or "it is being opened")
        try:
            return await asyncio.to_thread(read, store)
        except sqlite3.Error as error:
            raise UnusableError(str(error)) from error

    # ---- recording ----

    def _follow(
        self, kind: str, informer: Informer[T], fact_of: Callable[[T], DeviceFact | None]
    ) -> None:
        def changed(before: T | None, after: T | None) -> None:
            if (one := after or before) is None:
                return
            fact = None if after is None else fact_of(after)
            self._put((kind, key_of(one)), fact)

        informer.subscribe(changed)

    def _put(self, key: tuple[str, Key], fact: DeviceFact | None) -> None:
        known = self._holds.get(key)
        owner = None if fact is None else fact.owner
        if owner == (None if known is None else known.holder):
            return
        hold = None
        if fact is None or owner is None:
            del self._holds[key]
        else:
            hold = self._holds[key] = self._hold(fact, owner)
        if self.recording and (of := hold or known) is not None:
            unseen = self._silences.since(of.node)
            self._changes.append(Event(self.now, key[1].name, hold, unseen))

    def _hold(self, fact: DeviceFact, owner: Consumer) -> Hold:
        gpu = profile = ""
        if (vgpu := self._caches.vgpus.store.get(fact.name)) is not None:
            node, _, address = parent_of(vgpu).partition("/")
            gpu, profile = gpu_name(node, address), vgpu.status.configure_vgpu_type_name
        elif self._caches.gpus.store.get(fact.name) is not None:
            gpu = fact.name
        return Hold(fact.name, fact.node, fact.resource, owner, gpu, profile)

    def _observes(self) -> bool:
        """Whether no change can be missed now."""
        return self._server.away_since is None and all(
            one.unserved or one.problem is None for one in self._informers
        )

    async def _turn(self) -> None:
        now, observes = self._clock(), self._observes()
        try:
            if self._store is None:
                await self._open()
            if observes and not self.recording:
                await self._begin()
            elif self.recording:
                if observes and now >= self._due["agents"]:
                    self._due["agents"] = now + AGENTS_SECONDS
                    self._changes += self._silences.look(self.now, silent(self._caches, self.now))
                if self._changes or now >= self._due["seen"] or not observes:
                    await self._write(observes)
            if now >= self._due["trim"] and self._store is not None:
                self._due["trim"] = now + TRIM_SECONDS
                await asyncio.to_thread(self._store.trim, self.now)
        except (UnusableError, sqlite3.Error) as error:
            self._fail(str(error))

    async def _open(self) -> None:
        store = self._store = await asyncio.to_thread(Store, self.keeping)
        if store.set_aside:
            self.set_aside = store.set_aside
            log.warning("the history could not be used and is now %s", store.set_aside)

    async def _begin(self) -> None:
        if self._store is None:
            return
        # What changes from here on is an event, also while this is written.
        now, holds = self.now, tuple(self._holds.values())
        self.recording, self._changes = True, []
        self._silences.begin(now)
        await asyncio.to_thread(self._store.begin, now, holds)
        self.problem = ""
        self._tell()

    async def _write(self, observes: bool) -> None:
        if self._store is None:
            return
        changes, self._changes = self._changes, []
        self.recording = observes
        last = max((change.at for change in changes), default=0)
        seen = self.now if observes else last
        await asyncio.to_thread(self._store.write, changes, seen)
        self._due["seen"] = self._clock() + SEEN_SECONDS
        if changes or not observes:
            self._tell()

    def _tell(self) -> None:
        """The history is another."""
        changed, self.changed = self.changed, asyncio.Event()
        changed.set()
        for listener in self._listeners:
            listener()

    def _fail(self, why: str) -> None:
        if why != self.problem:
            log.error("the history is not recorded: %s", why)
        self.problem = why
        self._due["retry"] = self._clock() + RETRY_SECONDS
        self.recording, self._changes = False, []
        self._tell()
        if self._store is not None:
            self._store.close()
            self._store = None

    def _end(self) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        if self.recording and self._observes():
            with contextlib.suppress(sqlite3.Error):
                store.write(self._changes, self.now)
        store.close()
