"""Keeps the objects of one family of devices in step with what the host shows.

A key is worked on when the inventory wants it differently than before, and when the stored object
changed, by whichever client. What is written is only the difference between what is stored and what
should be; at steady state that is nothing. Labels and status are kept in step; spec and annotations
are given once, when an object is created, and belong to users afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Generic, cast

import msgspec

from laneway.api import Status, merge_patch, to_builtins
from laneway.controllers.devices.family import Family, T, merge_conditions, node_of
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.written import Written
from laneway.core.inventory import Inventory
from laneway.core.raw import Json
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, served

log = logging.getLogger(__name__)

UNDECODABLE_SECONDS = 60.0
"""How soon to look again at an object that cannot be read: its deletion is not announced."""


def timestamp() -> str:
    """Now, as the API writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Publisher(Generic[T]):
    """One writer of one family's objects on one node."""

    workers = 2

    def __init__(
        self,
        family: Family[T],
        node: str,
        client: Client,
        informer: Informer[T],
        metrics: AgentMetrics,
        *,
        clock: Callable[[], str] = timestamp,
    ) -> None:
        self.published = asyncio.Event()
        """Set once every object of the first inventory is as it should be."""
        self.node = node
        self.client = client
        self.informer = informer
        self.resource = served(family.type)
        self.metrics = metrics
        self.wanted: Mapping[str, T] = {}
        self.inventory = Inventory()
        self._family = family
        self._clock = clock
        self.queue: WorkQueue[str] = WorkQueue()
        self._written = Written()
        self._outstanding: set[str] | None = None
        self._left: tuple[Mapping[str, T], int, list[T]] = {}, -1, []
        """Which stored objects were not wanted, and when that was."""

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory: every object that should now be different is worked on."""
        before, after = self.wanted, self._family.wanted(inventory, self.node)
        if after == before:
            after = before  # Most events concern another family.
        self.inventory, self.wanted = inventory, after
        names = _different(before, after)
        if before is not after:
            names |= before.keys() - after.keys()
        first = self._outstanding is None
        stored = self.informer.store if first else self._unwanted()
        names |= {obj.metadata.name for obj in stored if self.concerns(obj)}
        if first:
            self._outstanding = set(names)
            self._settle()
        for name in sorted(names, key=self.rank):
            self.queue.add(name)

    def _unwanted(self) -> list[T]:
        """The stored objects that are not wanted: whether they stay an inventory says as well."""
        store = self.informer.store
        wanted, changes, found = self._left
        if wanted is not self.wanted or changes != store.changes:
            found = [obj for obj in store if obj.metadata.name not in self.wanted]
            self._left = self.wanted, store.changes, found
        return found

    def again(self) -> None:
        """Decide again what is wanted, as something else than the inventory has changed."""
        if self._outstanding is not None:
            self.observed(self.inventory)

    def concerns(self, _stored: T) -> bool:
        """Whether an object is looked at here; others are not even read twice."""
        return True

    def rank(self, name: str) -> tuple[bool, str]:
        """Objects are worked on in this order, so that the same facts always end alike."""
        return False, name

    async def run(self) -> None:
        """Work until cancelled. `informer` must be synced and `observed` have been called."""
        self.informer.subscribe(self._changed)
        await run_workers(self.queue, self._work, self.workers)

    def _changed(self, before: T | None, after: T | None) -> None:
        obj = after or before
        if obj is None:
            return
        if after is None:
            self._written.forget(obj.metadata.name)
        if self.concerns(obj):
            # A user waits for the answer to a new spec, not for what an inventory changes.
            new = before is not None and before.metadata.generation != obj.metadata.generation
            self.queue.add(obj.metadata.name, first=new)

    async def _work(self, name: str) -> Retry | None:
        try:
            return await self.reconcile(name)
        finally:
            # A failure is logged and retried; it must not keep the node from being ready.
            if self._outstanding:
                self._outstanding.discard(name)
                self._settle()

    def _settle(self) -> None:
        if not self._outstanding:
            self.published.set()

    async def reconcile(self, name: str) -> Retry | None:
        """Bring one object to what it should be."""
        if Key("", name) in self.informer.undecodable:
            return Retry(UNDECODABLE_SECONDS)  # The informer has said why; it cannot be answered.
        stored = self.informer.store.get(name)
        if lag := self._written.lag(name, stored.metadata if stored is not None else None):
            return Retry(lag)
        return await self.align(name, stored)

    async def align(self, name: str, stored: T | None) -> Retry | None:
        """Make, correct or remove an object, whose present state is this."""
        wanted = self.wanted.get(name)
        if stored is not None and stored.metadata.deletion_timestamp:
            return None  # Once it is gone it is made again, as the hardware is then.
        if wanted is None:
            if stored is None:
                return None
            if node_of(stored) not in ("", self.node):
                log.debug("%s %s belongs to another node", self.resource.kind, name)
            elif self._family.keep(stored, self.inventory):
                return await self.report(stored)
            else:
                await self.remove(stored)
            return None
        if stored is None:
            stored = await self.create(wanted)
        stored = await self.write_labels(stored, wanted)
        return None if stored.metadata.deletion_timestamp else await self.report(stored)

    async def report(self, stored: T) -> Retry | None:
        """Bring the status of an existing object up to date."""
        wanted = self.wanted.get(stored.metadata.name)
        if wanted is not None:
            await self.write_status(stored, self._family.status(stored, wanted))
        return None

    async def create(self, wanted: T) -> T:
        """Make an object; its status follows. One that others made meanwhile is taken as it is."""
        body = to_builtins(cast("msgspec.Struct", wanted))
        body.pop("status", None)
        try:
            created = await self.client.create(self.resource, body)
        except AlreadyExistsError:
            return await self.client.get(self.resource, wanted.metadata.name)
        self._wrote("create", created)
        log.info("created %s %s", self.resource.kind, wanted.metadata.name)
        return created

    async def remove(self, stored: T) -> None:
        """Delete exactly the object that was seen."""
        try:
            await self.client.delete(self.resource, stored.metadata.name, uid=stored.metadata.uid)
        except (NotFoundError, ConflictError):
            return  # It is gone, or another object has its name: the watch will tell.
        self.metrics.wrote("delete", self.resource.kind)
        log.info("deleted %s %s: its device is gone", self.resource.kind, stored.metadata.name)

    async def write_labels(self, stored: T, wanted: T) -> T:
        """Set the labels that are wrong; labels of others stay. Gives the object as it is then."""
        labels = {
            key: value
            for key, value in wanted.metadata.labels.items()
            if stored.metadata.labels.get(key) != value
        }
        if not labels:
            return stored
        patch = {"metadata": {"labels": labels}}
        patched = await self.client.patch(self.resource, stored.metadata.name, patch)
        self._wrote("patch", patched)
        return patched

    async def write_status(self, stored: T, status: Status, *, unchanged: bool = False) -> T:
        """Send the difference between the stored status and this one, if there is any.

        `unchanged` sends it only if the object has not changed since; raises ConflictError.
        Gives the object as it is then.
        """
        generation = stored.metadata.generation
        conditions = merge_conditions(
            stored.status.conditions, status.conditions, generation, self._clock()
        )
        settled = msgspec.structs.replace(
            status, observed_generation=generation, conditions=conditions
        )
        patch = merge_patch(stored.status, settled)
        if stored.status.observed_generation == 0:
            # Nothing is reported yet: say also what equals a default, `enabled: false` above all.
            patch |= to_builtins(settled)
        if not patch:
            return stored
        body: dict[str, Json] = {"status": patch}
        if unchanged:
            body["metadata"] = {"resourceVersion": stored.metadata.resource_version}
        patched = await self.client.patch(
            self.resource, stored.metadata.name, body, subresource="status"
        )
        self._wrote("patch status", patched)
        return patched

    def _wrote(self, verb: str, written: T) -> None:
        self._written.note(written.metadata)
        self.metrics.wrote(verb, self.resource.kind)


def _different(before: Mapping[str, T], after: Mapping[str, T]) -> set[str]:
    """Which objects are wanted otherwise. Most are the same, which compares faster than equal."""
    if before is after:
        return set()
    return {
        name for name, obj in after.items() if (was := before.get(name)) is not obj and was != obj
    }
