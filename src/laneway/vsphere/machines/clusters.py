"""VSphereCluster: provisioned once its vCenter can be asked, with its ready failure domains.

Its finalizer keeps it, and with it the credentials that it names, until its last machine is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta, timestamp
from laneway.controllers.cluster.leading import Leading
from laneway.controllers.ledger.vsphere import server_of
from laneway.kube.capv import VSPHERE_CLUSTERS, VSphereCluster, VSphereDeploymentZone
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.resource import Key, Resource, key_of
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.machines import finalizers
from laneway.vsphere.machines.conditions import (
    UNREACHABLE,
    VCENTER,
    Fact,
    conditions,
    with_summary,
)
from laneway.vsphere.machines.ownership import is_paused, of_cluster, owner_name
from laneway.vsphere.machines.selector import selects
from laneway.vsphere.machines.zones import is_ready
from laneway.vsphere.port import VCenterError
from laneway.vsphere.status import apply, as_json

CONFLICT_SECONDS = 0.2
AGAIN_SECONDS = 30.0


class _Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What is compared before it is written."""

    failure_domains: Any = msgspec.field(default_factory=list)
    initialization: Any = msgspec.field(default_factory=dict)
    v_center_version: str = ""
    conditions: list[Condition] = msgspec.field(default_factory=list)


class VCenterView(msgspec.Struct, frozen=True, kw_only=True):
    """A VSphereCluster with its status."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


_STATES = Resource(
    VSPHERE_CLUSTERS.group,
    VSPHERE_CLUSTERS.version,
    VSPHERE_CLUSTERS.plural,
    True,
    VCenterView,
    "VSphereCluster",
)


class VsphereClusters(Leading[Key]):
    """The infrastructure of clusters."""

    workers = 2

    def __init__(
        self, client: Client, caches: VsphereCaches, fleet: Fleet, *, clock: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._fleet = fleet
        self._clock = clock
        self.needs = (caches.vsphere_clusters, caches.clusters, caches.zones, caches.vms)
        caches.vsphere_clusters.subscribe(lambda old, new: self.ask(_keys(old, new)))
        caches.clusters.subscribe(lambda _old, _new: self.ask(self.everything()))
        caches.zones.subscribe(lambda _old, _new: self.ask(self.everything()))
        caches.vms.subscribe(lambda _old, new: None if new else self.ask(self.everything()))
        caches.vsphere_machines.subscribe(
            lambda _old, new: None if new else self.ask(self.everything())
        )
        fleet.subscribe(lambda _name, hosts: None if hosts else self.ask(self.everything()))

    def everything(self) -> Iterable[Key]:
        return self._caches.vsphere_clusters.store.keys()

    async def reconcile(self, key: Key) -> Retry | None:
        """Say how it stands with one cluster, or let it go."""
        try:
            infrastructure = await self._client.get(VSPHERE_CLUSTERS, key.name, key.namespace)
        except NotFoundError:
            return None
        meta = infrastructure.metadata
        owner = owner_name(meta, "Cluster")
        cluster = self._caches.clusters.store.get(owner, meta.namespace) if owner else None
        if is_paused(meta, cluster):
            return None
        try:
            if meta.deletion_timestamp is not None:
                return await self._delete(infrastructure)
            if finalizers.CLUSTER not in meta.finalizers:
                infrastructure = await finalizers.held(
                    self._client, VSPHERE_CLUSTERS, infrastructure, finalizers.CLUSTER
                )
            return await self._provide(infrastructure)
        except ConflictError:
            return Retry(CONFLICT_SECONDS)

    async def _provide(self, infrastructure: VSphereCluster) -> Retry | None:
        spec = infrastructure.spec
        state = await self._client.get(
            _STATES, infrastructure.metadata.name, infrastructure.metadata.namespace
        )
        status: dict[str, Any] = {"vCenterVersion": state.status.v_center_version}
        try:
            self._fleet.vcenter(spec.server)
        except VCenterError as error:
            facts = [Fact(VCENTER, False, UNREACHABLE, str(error))]
            retry: Retry | None = Retry(AGAIN_SECONDS)
        else:
            facts = [Fact(VCENTER, True, "Available")]
            status["vCenterVersion"] = self._fleet.version(self._fleet.name(spec.server))
            status["initialization"] = {"provisioned": True}
            retry = None
        if state.status.initialization.get("provisioned"):
            status["initialization"] = {"provisioned": True}
        status["failureDomains"] = [
            {"name": zone.metadata.name, "controlPlane": zone.spec.control_plane is not False}
            for zone in self._zones(infrastructure)
        ]
        await self._write(infrastructure, state, facts, status)
        return retry

    def _zones(self, infrastructure: VSphereCluster) -> list[VSphereDeploymentZone]:
        """Those that are ready, of this vCenter, and chosen; without a selector none is."""
        selector, server = (
            infrastructure.spec.failure_domain_selector,
            server_of(infrastructure.spec.server),
        )
        if selector is None:
            return []
        zones = (
            zone
            for zone in self._caches.zones.store
            if server_of(zone.spec.server) == server
            and selects(selector, zone.metadata.labels)
            and is_ready(zone, self._caches, self._fleet)
        )
        return sorted(zones, key=lambda zone: zone.metadata.name)

    async def _write(
        self,
        infrastructure: VSphereCluster,
        state: VCenterView,
        facts: list[Fact],
        status: Mapping[str, Any],
    ) -> None:
        now = timestamp(self._clock())
        generation = infrastructure.metadata.generation
        new = conditions(state.status.conditions, with_summary(facts), generation, now)
        before = state.status
        same = (
            before.failure_domains == status["failureDomains"]
            and before.initialization == status.get("initialization", {})
            and before.v_center_version == status["vCenterVersion"]
            and {one.type: one for one in before.conditions} == {one.type: one for one in new}
        )
        if not same:
            await apply(
                self._client,
                VSPHERE_CLUSTERS,
                infrastructure,
                {**status, "conditions": as_json(new)},
            )

    async def _delete(self, infrastructure: VSphereCluster) -> Retry | None:
        meta = infrastructure.metadata
        if finalizers.CLUSTER not in meta.finalizers:
            return None
        cluster = Key(meta.namespace, owner_name(meta, "Cluster") or of_cluster(meta).name)
        caches = self._caches
        left = [
            one
            for store in (caches.vms.store, caches.vsphere_machines.store)
            for one in store
            if of_cluster(one.metadata) == cluster
        ]
        if left:
            return Retry(AGAIN_SECONDS)
        await finalizers.remove_finalizer(
            self._client, VSPHERE_CLUSTERS, infrastructure, finalizers.CLUSTER
        )
        return None


def _keys(*objects: VSphereCluster | None) -> list[Key]:
    return [key_of(one) for one in objects if one is not None][-1:]
