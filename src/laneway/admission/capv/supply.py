"""What a machine's vCenter has for it, as far as the cluster's objects tell.

Nothing is asked of a vCenter here: its hosts stand in VSphereHosts, and its reservations in
VSphereReservations. Where there is none of that, nothing is known, which is not the same as that
there is nothing: vCenters are followed by the manager, which may have been started a moment ago, or
not at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from laneway.admission.capv.known import VCENTER
from laneway.admission.world import World
from laneway.api import find_condition
from laneway.controllers.ledger.vsphere import server_of, vcenter_of
from laneway.core.phrases import listed, shown
from laneway.core.refusals import Refusal
from laneway.core.refusals.vsphere import is_terminal
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.capacity import fits
from laneway.core.vsphere.placement.domain import ANYWHERE, Domain
from laneway.core.vsphere.placement.placing import choose_host
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.spec.requests import Requested
from laneway.kube.capv import VSphereCluster
from laneway.kube.clusterapi import LABEL_CLUSTER


class Scope(NamedTuple):
    """Whose machines it is about."""

    namespace: str
    cluster: str
    """Name of the Cluster; empty: unknown."""
    server: str
    """As their spec says it; empty: the cluster's."""


class Site(NamedTuple):
    """One vCenter: what is called alike in two of them is not the same."""

    hosts: Sequence[Host]
    reservations: Sequence[Reservation]


class Supply(NamedTuple):
    """Where a machine may be, with all that is reserved there."""

    servers: tuple[str, ...]
    sites: tuple[Site, ...]
    """Those of which something is known."""
    domain: Domain = ANYWHERE

    @property
    def known(self) -> bool:
        """Whether anything is known of where the machines may be."""
        return bool(self.sites)

    @property
    def unknown(self) -> str:
        """What to say where nothing is known."""
        names = listed(map(shown, self.servers)) if self.servers else "the vCenter of the Machines"
        return (
            f"The devices were not checked: Laneway does not know the hosts of {names}. Run "
            "'kubectl get vcenters' to see which vCenters Laneway follows."
        )

    @property
    def with_reservation(self) -> frozenset[str]:
        """The machines that have reserved something."""
        return frozenset(
            one.machine for site in self.sites for one in site.reservations if one.allocations
        )

    def refusal(self, requested: Requested) -> Refusal | None:
        """Why there is no place for one machine; None where there is, or nothing is known."""
        last: Refusal | None = None
        for site in self.sites:
            found = choose_host(site.hosts, requested, site.reservations, domain=self.domain)
            if isinstance(found, Reservation):
                return None
            last = found if last is None or not is_terminal(found) else last
        return last

    def why(self, requested: Requested) -> str:
        """The same in words; empty where there is a place, or nothing is known."""
        refusal = self.refusal(requested)
        return "" if refusal is None else refusal.words

    def room(self, requested: Requested) -> int:
        """For how many machines there is room, all in one vCenter."""
        return max(
            (fits(site.hosts, requested, site.reservations, self.domain) for site in self.sites),
            default=0,
        )

    def without(self, machines: Collection[str]) -> Supply:
        """As it were if these machines, by the names that reservations have for them, were gone."""
        return self._replace(sites=tuple(_without(site, machines) for site in self.sites))


def _without(site: Site, machines: Collection[str]) -> Site:
    vms = {one.vm for one in site.reservations if one.machine in machines and one.vm}
    hosts = [
        replace(
            host,
            devices=tuple(
                replace(one, holder="") if one.holder in vms else one for one in host.devices
            ),
            shared_gpus=tuple(
                replace(one, users=tuple(user for user in one.users if user.vm not in vms))
                for one in host.shared_gpus
            ),
        )
        for host in site.hosts
    ]
    return Site(hosts, [one for one in site.reservations if one.machine not in machines])


def of_template(world: World, scope: Scope) -> Supply | None:
    """What a template's machines can have, in whichever failure domain they will be.

    None where Laneway follows no vCenter at all.
    """
    own = _server(world, scope)
    zones = (zone.spec.server for zone in world.vsphere_zones)
    servers = {server_of(one) for one in (own, *zones) if one} if own else set()
    return _supply(world, servers, ANYWHERE)


def of_machines(world: World, scope: Scope, zone: str, datacenter: str) -> Supply | None:
    """What machines of one failure domain can have; `zone` is empty where they are in none.

    None where Laneway follows no vCenter at all, or does not know the failure domain.
    """
    if not zone:
        own = _server(world, scope)
        return _supply(world, {server_of(own)} if own else (), Domain(datacenter=datacenter))
    found = world.vsphere_zones.get(zone)
    if found is None:
        return None
    there = world.vsphere_domains.get(found.spec.failure_domain)
    if there is None:
        return None
    topology = there.spec.topology
    group = topology.hosts.host_group_name if topology.hosts else ""
    domain = Domain(topology.datacenter, topology.compute_cluster, group)
    return _supply(world, {server_of(found.spec.server)} if found.spec.server else (), domain)


def cluster_of(world: World, scope: Scope) -> VSphereCluster | None:
    """The machines' cluster, as far as it is known."""
    for one in world.vsphere_clusters if scope.cluster else ():
        meta = one.metadata
        names = (meta.labels.get(LABEL_CLUSTER), meta.name)
        if meta.namespace == scope.namespace and scope.cluster in names and one.spec.server:
            return one
    return None


def _server(world: World, scope: Scope) -> str:
    """The machines' own, or their cluster's; empty where neither says it."""
    found = None if scope.server else cluster_of(world, scope)
    return scope.server if found is None else found.spec.server


def _supply(world: World, servers: Iterable[str], domain: Domain) -> Supply | None:
    """Of these servers; of all where none is named."""
    if not (len(world.vcenters) or len(world.vsphere_hosts)):
        return None
    named = sorted(servers)
    vcenters = {vcenter_of(one, world.vcenters) for one in named} or {
        *(str(one) for one in world.vsphere_hosts.values(VCENTER)),
        *(one.metadata.name for one in world.vcenters),
    }
    sites = (_site(world, vcenter) for vcenter in sorted(vcenters))
    return Supply(tuple(named), tuple(site for site in sites if site is not None), domain)


def _site(world: World, vcenter: str) -> Site | None:
    hosts = [known.host for known in world.vsphere_hosts.by(VCENTER, vcenter)]
    if not hosts:
        object_ = world.vcenters.get(vcenter)
        ready = find_condition(object_.status.conditions, "Ready") if object_ else None
        if ready is None or ready.status != "True":
            return None
    reservations = world.vsphere_reservations.by(VCENTER, vcenter)
    return Site(hosts, [known.reservation for known in reservations])
