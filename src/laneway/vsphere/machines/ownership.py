"""To whom objects of CAPV's belong, and whether they are to be left alone.

A VSphereVM belongs to a VSphereMachine, that to a Machine, that to a Cluster. A part of the chain
that is not there is None, and a caller that needs it waits.
"""

from __future__ import annotations

from typing import NamedTuple

from laneway.api import ObjectMeta
from laneway.kube.capv import (
    VSphereCluster,
    VSphereDeploymentZone,
    VSphereFailureDomain,
    VSphereMachine,
)
from laneway.kube.clusterapi import ANNOTATION_PAUSED, LABEL_CLUSTER, Cluster, Machine
from laneway.kube.resource import Key
from laneway.vsphere.fleet.caches import VsphereCaches


class Owners(NamedTuple):
    """Everything above a VSphereMachine, as far as it is there."""

    machine: Machine | None
    cluster: Cluster | None
    infrastructure: VSphereCluster | None
    zone: VSphereDeploymentZone | None
    domain: VSphereFailureDomain | None


def owner_name(meta: ObjectMeta, kind: str) -> str:
    """The name of the owner of a kind; empty: there is none."""
    return next((one.name for one in meta.owner_references if one.kind == kind), "")


def cluster_of(meta: ObjectMeta, caches: VsphereCaches) -> Cluster | None:
    """The Cluster that an object belongs to."""
    name = meta.labels.get(LABEL_CLUSTER, "")
    return caches.clusters.store.get(name, meta.namespace) if name else None


def owners_of(machine: VSphereMachine, caches: VsphereCaches) -> Owners:
    """Everything above a VSphereMachine."""
    namespace = machine.metadata.namespace
    above = caches.machines.store.get(owner_name(machine.metadata, "Machine"), namespace)
    cluster = cluster_of(machine.metadata, caches)
    infrastructure = None
    if cluster is not None:
        name = cluster.spec.infrastructure_ref.name
        infrastructure = caches.vsphere_clusters.store.get(name, namespace)
    zone = domain = None
    if above is not None and above.spec.failure_domain:
        zone = caches.zones.store.get(above.spec.failure_domain)
    if zone is not None:
        domain = caches.domains.store.get(zone.spec.failure_domain)
    return Owners(above, cluster, infrastructure, zone, domain)


def is_paused(meta: ObjectMeta, cluster: Cluster | None) -> bool:
    """Whether the object is paused."""
    return ANNOTATION_PAUSED in meta.annotations or (cluster is not None and cluster.spec.paused)


def of_cluster(meta: ObjectMeta) -> Key:
    """The Cluster that an object says it belongs to."""
    return Key(meta.namespace, meta.labels.get(LABEL_CLUSTER, ""))
