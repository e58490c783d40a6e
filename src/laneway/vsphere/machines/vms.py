"""VSphereVM → VM: looks, decides one step, takes it, says so; then the same again.

A worker never waits for a task of vCenter: its end has the machine looked at again, and so does
every change of the hosts that concerns it. Orders are bounded: what failed waits longer each time,
what cannot succeed waits for a change.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from laneway.controllers.cluster.leading import Leading
from laneway.kube.capv import VSPHERE_VMS, VSphereVM
from laneway.kube.client import Client
from laneway.kube.clusterapi import Cluster
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Key, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.machines.changes import generation_of, is_same, needs_reconcile
from laneway.vsphere.machines.context import Context
from laneway.vsphere.machines.finalizers import VM as FINALIZER
from laneway.vsphere.machines.finalizers import held
from laneway.vsphere.machines.full_spec import VMS_WITH_SPEC
from laneway.vsphere.machines.latest import Latest
from laneway.vsphere.machines.ownership import cluster_of, is_paused, of_cluster
from laneway.vsphere.machines.reconcile import VmReconciliation
from laneway.vsphere.machines.retry_state import Pace, RetryState
from laneway.vsphere.port import VCenter, VCenterError
from laneway.vsphere.status import Statuses

log = logging.getLogger(__name__)

CONFLICT_SECONDS = 0.2


def _now() -> datetime:
    return datetime.now(UTC)


class Vms(Leading[Key]):
    """The machines."""

    workers = 16

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        fleet: Fleet,
        reservations: Reservations,
        recorder: EventRecorder,
        *,
        pace: Pace | None = None,
        clock: Callable[[], datetime] = _now,
    ) -> None:
        super().__init__()
        self._caches = caches
        self._latest = Latest(caches.vms, self._read)
        self._context = Context(
            client,
            caches,
            fleet,
            reservations,
            recorder,
            pace or Pace(),
            clock,
            self._latest,
            Statuses(client),
            self._watch,
        )
        self._memories: dict[Key, RetryState] = {}
        self._watches: dict[Key, tuple[str, asyncio.Task[None]]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.needs = (
            caches.vms,
            caches.vsphere_machines,
            caches.vsphere_clusters,
            caches.machines,
            caches.clusters,
            caches.zones,
            caches.domains,
            caches.reservations,
        )
        caches.vms.subscribe(self._vm_changed)
        caches.clusters.subscribe(self._cluster_changed)
        caches.reservations.subscribe(self._reservation_changed)
        fleet.subscribe(self._hosts_changed)

    def everything(self) -> Iterable[Key]:
        return self._caches.vms.store.keys()

    # ------------------------------------------------------------------------------- what changes

    def _vm_changed(self, before: VSphereVM | None, after: VSphereVM | None) -> None:
        if needs_reconcile(before, after) and not self._is_own(before, after):
            self.ask([key_of(one) for one in (after or before,) if one is not None])

    def _is_own(self, before: VSphereVM | None, after: VSphereVM | None) -> bool:
        """Whether a change of the spec is the uid that we wrote there."""
        if before is None or after is None:
            return False
        retries = self._memories.get(key_of(after))
        if retries is None or retries.uid != after.metadata.uid:
            return False
        return retries.generation == generation_of(after) and is_same(before, after)

    def _cluster_changed(self, before: Cluster | None, after: Cluster | None) -> None:
        if before is None or after is None or before.spec.paused == after.spec.paused:
            return
        owner = key_of(after)
        self.ask(key_of(vm) for vm in self._caches.vms.store if of_cluster(vm.metadata) == owner)

    def _reservation_changed(self, before: object, _after: object) -> None:
        """What one machine no longer needs another may wait for."""
        if before is not None:
            self.ask([key for key, one in self._memories.items() if one.refusal is not None])

    def _hosts_changed(self, vcenter: str, hosts: frozenset[str]) -> None:
        now = time.monotonic()
        for key, retries in self._memories.items():
            if self._context.fleet.name(retries.server) != vcenter:
                continue
            waits = retries.blocked or retries.refusal is not None
            if hosts:
                retries.changed(hosts, now, self._context.pace)
            if not hosts or waits or retries.host in hosts:
                self.ask([key])

    # ------------------------------------------------------------------------------------- working

    async def reconcile(self, key: Key) -> Retry | None:
        """Bring one machine a step further."""
        try:
            vm = await self._latest.get(key)
        except NotFoundError:
            self._memories.pop(key, None)
            if watched := self._watches.pop(key, None):
                watched[1].cancel()
            return None
        if is_paused(vm.metadata, cluster_of(vm.metadata, self._caches)):
            return None
        try:
            if FINALIZER not in vm.metadata.finalizers:
                if vm.metadata.deletion_timestamp is not None:
                    return None
                vm = await held(self._context.client, VSPHERE_VMS, vm, FINALIZER)
                self._latest.wrote(vm)
            return await VmReconciliation(self._context, vm, self._retries(key, vm)).run()
        except ConflictError:
            self._latest.invalidate(key)
            return Retry(CONFLICT_SECONDS)

    async def _read(self, key: Key) -> VSphereVM:
        """All of it is needed when it is looked at for the first time."""
        found = await self._context.client.get(VMS_WITH_SPEC, key.name, key.namespace)
        self._retries(key, found.known).spec = found.spec
        return found.known

    def _retries(self, key: Key, vm: VSphereVM) -> RetryState:
        meta = vm.metadata
        retries = self._memories.get(key)
        if retries is None or retries.uid != meta.uid:
            retries = self._memories[key] = RetryState(meta.uid)
            retries.generation = generation_of(vm)
            retries.due = time.monotonic() + self._still_to_wait(vm)
        retries.server = vm.spec.server
        retries.rewritten(generation_of(vm))
        return retries

    def _still_to_wait(self, vm: VSphereVM) -> float:
        """A new leader waits as the last one would have."""
        try:
            until = datetime.fromisoformat(vm.status.retry_after)
            left = (until - self._context.clock()).total_seconds()
        except (ValueError, TypeError):
            return 0.0
        return min(max(left, 0.0), self._context.pace.longest)

    def _watch(self, key: Key, vcenter: VCenter, task: str) -> None:
        """Have the machine looked at again when a task ends."""
        watched = self._watches.get(key)
        if self._group is None or (watched and watched[0] == task and not watched[1].done()):
            return
        if watched:
            watched[1].cancel()
        waiting = self._group.create_task(self._await_end(key, vcenter, task))
        self._watches[key] = task, waiting

    async def _await_end(self, key: Key, vcenter: VCenter, task: str) -> None:
        try:
            await vcenter.finished(task)
        except VCenterError as error:
            log.info("%s: no news of the end of %s: %s", key, task, error)
            await asyncio.sleep(self._context.pace.look)
        self.queue.add(key)

    async def run(self) -> None:
        """Lead until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                await super().run()
        finally:
            self._group = None
            self._watches.clear()
            self._memories.clear()
            self._latest.forget()
