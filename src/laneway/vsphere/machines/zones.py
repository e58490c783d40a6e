"""VSphereDeploymentZone: ready when its vCenter has hosts for its failure domain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta, timestamp
from laneway.controllers.cluster.leading import Leading
from laneway.core.phrases import few
from laneway.core.vsphere.placement.domain import Domain
from laneway.kube.capv import DEPLOYMENT_ZONES, VSphereDeploymentZone
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.machines.conditions import (
    UNREACHABLE,
    VCENTER,
    Fact,
    conditions,
    with_summary,
)
from laneway.vsphere.machines.ownership import is_paused
from laneway.vsphere.port import VCenterError
from laneway.vsphere.status import apply, as_json

VALIDATED = "FailureDomainValidated"
AGAIN_SECONDS = 30.0


class _Status(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared before it is written."""

    ready: bool = False
    conditions: list[Condition] = msgspec.field(default_factory=list)


class VCenterView(msgspec.Struct, frozen=True, kw_only=True):
    """A VSphereDeploymentZone with its status."""

    metadata: ObjectMeta = ObjectMeta()
    status: _Status = _Status()


_STATES = Resource(
    DEPLOYMENT_ZONES.group,
    DEPLOYMENT_ZONES.version,
    DEPLOYMENT_ZONES.plural,
    False,
    VCenterView,
    "VSphereDeploymentZone",
)


class VsphereZones(Leading[str]):
    """The failure domains that machines name."""

    def __init__(
        self, client: Client, caches: VsphereCaches, fleet: Fleet, *, clock: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._client = client
        self._caches = caches
        self._fleet = fleet
        self._clock = clock
        self.needs = (caches.zones, caches.domains)
        caches.zones.subscribe(lambda _, new: self.ask([new.metadata.name] if new else ()))
        caches.domains.subscribe(lambda _old, _new: self.ask(self.everything()))
        fleet.subscribe(lambda _name, _hosts: self.ask(self.everything()))

    def everything(self) -> Iterable[str]:
        return [zone.metadata.name for zone in self._caches.zones.store]

    async def reconcile(self, key: str) -> Retry | None:
        """Say how it stands with one zone."""
        try:
            zone = await self._client.get(DEPLOYMENT_ZONES, key)
            state = await self._client.get(_STATES, key)
        except NotFoundError:
            return None
        if zone.metadata.deletion_timestamp is not None or is_paused(zone.metadata, None):
            return None
        facts = [*judged(zone, self._caches, self._fleet)]
        ready = all(one.holds for one in facts)
        now = timestamp(self._clock())
        generation = zone.metadata.generation
        new = conditions(state.status.conditions, with_summary(facts), generation, now)
        before = {one.type: one for one in state.status.conditions}
        if state.status.ready != ready or before != {one.type: one for one in new}:
            status: dict[str, Any] = {"ready": ready, "conditions": as_json(new)}
            await apply(self._client, DEPLOYMENT_ZONES, zone, status)
        return None if ready else Retry(AGAIN_SECONDS)


def is_ready(zone: VSphereDeploymentZone, caches: VsphereCaches, fleet: Fleet) -> bool:
    """Whether machines can be made in a zone."""
    return all(one.holds for one in judged(zone, caches, fleet))


def judged(zone: VSphereDeploymentZone, caches: VsphereCaches, fleet: Fleet) -> tuple[Fact, ...]:
    """What is true of a zone."""
    try:
        fleet.vcenter(zone.spec.server)
    except VCenterError as error:
        return (Fact(VCENTER, False, UNREACHABLE, str(error)),)
    available = Fact(VCENTER, True, "Available")
    name = zone.spec.failure_domain
    found = caches.domains.store.get(name)
    if found is None:
        words = f"There is no VSphereFailureDomain {name!r}"
        return available, Fact(VALIDATED, False, "FailureDomainNotFound", words)
    topology = found.spec.topology
    group = topology.hosts.host_group_name if topology.hosts is not None else ""
    domain = Domain(topology.datacenter, topology.compute_cluster, group)
    hosts = fleet.hosts(zone.spec.server)
    if not any(domain.has(host) for host in hosts):
        clusters = sorted({f"{host.datacenter}/{host.cluster}" for host in hosts})
        there = f"; there is {few(clusters)}" if clusters else ""
        words = f"vCenter has no host in {domain}{there}"
        return available, Fact(VALIDATED, False, "NoHostInDomain", words)
    return available, Fact(VALIDATED, True, "Validated")
