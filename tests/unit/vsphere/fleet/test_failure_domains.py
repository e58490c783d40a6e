"""Where machines may be, by the objects above them."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import ObjectMeta, OwnerReference
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.domain import Domain
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.failure_domains import domain_of, in_cluster, pool_of
from laneway.vsphere.port import Place


@pytest.fixture
def caches() -> VsphereCaches:
    """Caches of a server that is never asked."""
    return VsphereCaches.of(Client(ClusterConfig(cluster=Cluster(server="http://127.0.0.1:1"))))


def meta(name: str, owner: str = "", kind: str = "") -> ObjectMeta:
    owners = [OwnerReference(api_version="x/v1", kind=kind, name=owner, uid="u")] if owner else []
    return ObjectMeta(name=name, namespace="team", owner_references=owners)


def vm(**spec: Any) -> capv.VSphereVM:
    return capv.VSphereVM(metadata=meta("vm", "infra", "VSphereMachine"), spec=capv.VmSpec(**spec))


def stock(caches: VsphereCaches, domain: str = "zone") -> None:
    hosts = capv.ZoneHosts(host_group_name="gpu-hosts")
    topology = capv.Topology(datacenter="/DC0", compute_cluster="/DC0/host/C1", hosts=hosts)
    caches.vsphere_machines.store.put(capv.VSphereMachine(metadata=meta("infra", "m", "Machine")))
    machine = clusterapi.MachineSpec(failure_domain=domain)
    caches.machines.store.put(clusterapi.Machine(metadata=meta("m"), spec=machine))
    zone = capv.DeploymentZoneSpec(failure_domain="fd")
    caches.zones.store.put(capv.VSphereDeploymentZone(metadata=ObjectMeta(name="zone"), spec=zone))
    caches.domains.store.put(
        capv.VSphereFailureDomain(
            metadata=ObjectMeta(name="fd"), spec=capv.FailureDomainSpec(topology=topology)
        )
    )


def test_a_failure_domain_comes_before_what_the_spec_says(caches: VsphereCaches) -> None:
    stock(caches)
    found = domain_of(vm(datacenter="DC9", resource_pool="C9/Resources"), caches)
    assert found == Domain("/DC0", "/DC0/host/C1", "gpu-hosts")


@pytest.mark.parametrize(
    ("spec", "domain"),
    [
        ({}, Domain()),
        ({"datacenter": "*"}, Domain()),
        ({"datacenter": "DC0"}, Domain("DC0")),
        ({"resource_pool": "/DC0/host/C1/Resources/team"}, Domain("", "C1")),
        ({"resource_pool": "*/Resources"}, Domain()),
        ({"resource_pool": "C?/Resources"}, Domain()),
        ({"resource_pool": "team"}, Domain()),
        ({"resource_pool": "Resources"}, Domain()),
    ],
)
def test_without_one_the_spec_counts(
    caches: VsphereCaches, spec: dict[str, str], domain: Domain
) -> None:
    assert domain_of(vm(**spec), caches) == domain
    stock(caches, domain="")
    assert domain_of(vm(**spec), caches) == domain


def test_the_cluster_of_a_pool_is_read_only_where_it_is_not_known() -> None:
    team = vm(datacenter="*", resource_pool="team")
    assert pool_of(team, Domain()) == Place(datacenter="*", resource_pool="team")
    assert pool_of(team, Domain(cluster="C1")) is None
    assert pool_of(vm(datacenter="DC0"), Domain()) is None


def test_a_pool_narrows_a_domain_to_its_cluster() -> None:
    hosts = [
        Host(
            f"host-{at}", f"h{at}", datacenter="DC1", cluster=f"C{at}", cluster_ref=f"domain-c{at}"
        )
        for at in range(2)
    ]
    found = in_cluster(Domain("", "", "gpu-hosts"), "domain-c1", hosts)
    assert found == Domain("DC1", "C1", "gpu-hosts")
    # A cluster without hosts has none for a machine.
    assert not any(in_cluster(Domain(), "domain-c9", hosts).has(host) for host in hosts)
