"""Writes what is known of vCenters: a VSphereHost for each host with devices, a VCenter's status.

An object is written only when it would say something else, so that a quiet vCenter costs the API
server nothing. What a vCenter no longer has is deleted once it has reported all that it has; an
outage withdraws nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple

from laneway.api import Condition, set_condition, timestamp
from laneway.api.patch import merge_patch
from laneway.api.vsphere import VCenter, VCenterStatus, VSphereHost, VSphereHostStatus
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.ledger.vsphere import host_object
from laneway.controllers.written import Written
from laneway.core import names
from laneway.core.vsphere.inventory.hosts import Host
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError, NotFoundError
from laneway.kube.resource import served
from laneway.vsphere.fleet.caches import OF_VCENTER, VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.metrics import FleetMetrics

VCENTERS = served(VCenter)
HOSTS = served(VSphereHost)
READY = "Ready"


class Page(NamedTuple):
    """What is written: of one host, or, without a ref, of the vCenter itself."""

    vcenter: str
    ref: str = ""


class Publishing(Leading[Page]):
    """Keeps the objects in step with the fleet."""

    workers = 4

    def __init__(
        self,
        client: Client,
        caches: VsphereCaches,
        fleet: Fleet,
        metrics: FleetMetrics,
        *,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._fleet = fleet
        self._metrics = metrics
        self._clock = clock
        self._written = Written()
        self.needs = (caches.vcenters, caches.hosts)
        fleet.subscribe(self._hosts_changed)
        caches.vcenters.subscribe(lambda _, new: self.ask([Page(new.metadata.name)] if new else ()))
        caches.hosts.subscribe(self._seen)

    def _hosts_changed(self, name: str, refs: frozenset[str]) -> None:
        self.ask([Page(name), *(Page(name, ref) for ref in refs)])
        if not refs:
            # The connection came or went, with it perhaps the vCenter: what is stale now?
            self.ask(Page(name, host.spec.ref) for host in self._published(name))

    def _seen(self, old: VSphereHost | None, new: VSphereHost | None) -> None:
        host = new or old
        if host is not None:
            if new is None:
                self._written.forget(host.metadata.name)
            self.ask([Page(host.spec.vcenter, host.spec.ref)])

    def everything(self) -> Iterable[Page]:
        """All vCenters, their hosts, and the hosts that there once were."""
        known = {one.metadata.name for one in self._caches.vcenters.store}
        pages = {Page(name) for name in known}
        pages |= {Page(one.spec.vcenter, one.spec.ref) for one in self._caches.hosts.store}
        for name in self._fleet.known():
            pages |= {Page(name, ref) for ref in self._fleet.inventory(name)}
        return pages

    async def reconcile(self, key: Page) -> Retry | None:
        """Bring one object to what is known."""
        if key.ref:
            return await self._publish_host(key)
        await self._publish_vcenter(key.vcenter)
        return None

    async def _publish_host(self, page: Page) -> Retry | None:
        name = names.vsphere_host_object_name(page.vcenter, page.ref)
        found = self._caches.hosts.store.get(name)
        if lag := self._written.lag(name, found.metadata if found is not None else None):
            return Retry(lag)
        host = self._fleet.inventory(page.vcenter).get(page.ref)
        if host is None or not has_devices(host):
            if found is not None and self._is_stale(page.vcenter):
                await self._delete(found)
            return None
        new = host_object(page.vcenter, host)
        if found is None:
            with contextlib.suppress(AlreadyExistsError):
                found = await self._client.create(HOSTS, new)
                self._metrics.wrote("create", "VSphereHost")
            if found is None:
                return Retry(1.0)
        if found.spec != new.spec:
            # It was edited by hand, and its spec is immutable.
            await self._delete(found)
            return Retry(1.0)
        await self._say(found, new.status)
        return None

    def _is_stale(self, vcenter: str) -> bool:
        """Whether what is not known of a vCenter is not there."""
        return self._fleet.complete(vcenter) or vcenter not in self._fleet.known()

    async def _say(self, found: VSphereHost, status: VSphereHostStatus) -> None:
        if not (patch := merge_patch(found.status, status)):
            return
        written = await self._client.patch(
            HOSTS, found.metadata.name, {"status": patch}, subresource="status"
        )
        self._metrics.wrote("patch", "VSphereHost")
        self._written.note(written.metadata)

    async def _delete(self, found: VSphereHost) -> None:
        with contextlib.suppress(NotFoundError):
            await self._client.delete(HOSTS, found.metadata.name, uid=found.metadata.uid)
            self._metrics.wrote("delete", "VSphereHost")

    async def _publish_vcenter(self, name: str) -> None:
        found = self._caches.vcenters.store.get(name)
        if found is None or found.metadata.deletion_timestamp is not None:
            return
        state = self._fleet.state(name)
        generation = found.metadata.generation
        condition = Condition(
            type=READY,
            status="True" if state.ready else "False",
            reason=state.reason,
            message=state.message,
            observed_generation=generation,
        )
        hosts, gpus = found.status.hosts, found.status.gpus
        if self._fleet.complete(name):
            there = [one for one in self._fleet.inventory(name).values() if has_devices(one)]
            hosts, gpus = len(there), sum(map(gpus_of, there))
        status = VCenterStatus(
            observed_generation=generation,
            conditions=set_condition(found.status.conditions, condition, self._now()),
            version=self._fleet.version(name) or found.status.version,
            hosts=hosts,
            gpus=gpus,
        )
        if patch := merge_patch(found.status, status):
            await self._client.patch(VCENTERS, name, {"status": patch}, subresource="status")
            self._metrics.wrote("patch", "VCenter")

    def _published(self, name: str) -> list[VSphereHost]:
        return self._caches.hosts.store.by(OF_VCENTER, name)

    def _now(self) -> str:
        return timestamp(self._clock())


def has_devices(host: Host) -> bool:
    """Whether a host has anything that a machine could request."""
    return bool(host.devices or host.shared_gpus or host.device_groups)


def gpus_of(host: Host) -> int:
    """How many GPUs a host has, whole ones and shared ones."""
    whole = {one.id for one in host.devices if one.display}
    return len(whole | {one.id for one in host.shared_gpus})
