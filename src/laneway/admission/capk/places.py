"""Where the VMs of CAPK's machines are: in this cluster, or in one that a Secret leads to.

Of another cluster's devices Laneway knows nothing here. Where a machine's cluster is not known yet,
nothing is refused: it may still say that its VMs are elsewhere.
"""

from __future__ import annotations

from enum import StrEnum

from laneway.admission.world import World
from laneway.kube.capk import KubevirtCluster, KubevirtMachineTemplate
from laneway.kube.clusterapi import LABEL_CLUSTER


class Place(StrEnum):
    """Where VMs are."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    UNKNOWN = "unknown"


def place_of(template: KubevirtMachineTemplate, namespace: str, name: str, world: World) -> Place:
    """Where the VMs of a template are, made for the Cluster of a name; empty: unknown."""
    if template.machine.infra_cluster_secret_ref is not None:
        return Place.ELSEWHERE
    cluster = cluster_of(namespace, name, world)
    if cluster is None:
        return Place.UNKNOWN
    leads = cluster.spec.infra_cluster_secret_ref is not None
    return Place.ELSEWHERE if leads else Place.HERE


def cluster_of(namespace: str, name: str, world: World) -> KubevirtCluster | None:
    """The KubevirtCluster of a Cluster. Cluster API labels it, mostly it has the same name."""
    if not name:
        return None
    own = [one for one in world.kubevirt_clusters if one.metadata.namespace == namespace]
    labelled = (one for one in own if one.metadata.labels.get(LABEL_CLUSTER) == name)
    return next(labelled, None) or world.kubevirt_clusters.get(name, namespace)
