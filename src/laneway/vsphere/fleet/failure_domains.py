"""Where a machine may be: the failure domain of its Machine, or what its own spec says."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from laneway.api import ObjectMeta
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.domain import Domain
from laneway.kube.capv import VSphereDeploymentZone, VSphereVM
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.port import Place

_ROOT_POOL = "Resources"
"""vCenter's name for the resource pool that is a whole cluster."""


def domain_of(vm: VSphereVM, caches: VsphereCaches) -> Domain:
    """The hosts on which a machine may be."""
    zone = zone_of(vm, caches)
    found = caches.domains.store.get(zone.spec.failure_domain) if zone is not None else None
    if found is None:
        return Domain(_plain(vm.spec.datacenter), _cluster_of(vm.spec.resource_pool))
    topology = found.spec.topology
    hosts = topology.hosts
    return Domain(
        topology.datacenter,
        topology.compute_cluster,
        hosts.host_group_name if hosts is not None else "",
    )


def pool_of(vm: VSphereVM, domain: Domain) -> Place | None:
    """The resource pool of which vCenter alone knows the cluster; None: there is nothing to ask."""
    if domain.cluster or not vm.spec.resource_pool:
        return None
    return Place(datacenter=vm.spec.datacenter, resource_pool=vm.spec.resource_pool)


def in_cluster(domain: Domain, ref: str, hosts: Iterable[Host]) -> Domain:
    """What of a domain is in a cluster, by the names that people know."""
    one = next((host for host in hosts if host.cluster_ref == ref), None)
    if one is None:
        return replace(domain, cluster=ref)
    return replace(domain, datacenter=one.datacenter, cluster=one.cluster)


def zone_of(vm: VSphereVM, caches: VsphereCaches) -> VSphereDeploymentZone | None:
    """The deployment zone that the Machine of a VSphereVM names."""
    namespace = vm.metadata.namespace
    above = _owner(vm.metadata, "VSphereMachine")
    infrastructure = caches.vsphere_machines.store.get(above, namespace)
    if infrastructure is None:
        return None
    machine = caches.machines.store.get(_owner(infrastructure.metadata, "Machine"), namespace)
    if machine is None or not machine.spec.failure_domain:
        return None
    return caches.zones.store.get(machine.spec.failure_domain)


def _owner(meta: ObjectMeta, kind: str) -> str:
    return next((one.name for one in meta.owner_references if one.kind == kind), "")


def _cluster_of(pool: str) -> str:
    """`DC0_C0` of `/DC0/host/DC0_C0/Resources/team`; empty where the name does not tell."""
    parts = pool.split("/")
    if _ROOT_POOL not in parts[1:]:
        return ""
    return _plain(parts[parts.index(_ROOT_POOL, 1) - 1])


def _plain(name: str) -> str:
    """A name with a wildcard restricts nothing."""
    return "" if "*" in name or "?" in name else name
