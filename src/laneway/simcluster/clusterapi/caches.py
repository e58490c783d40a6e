"""What these controllers know of the cluster, and who is told when some of it changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from laneway.api.vsphere import VSphereHost
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER, Cluster
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, key_of, served
from laneway.simcluster.clusterapi.objects import (
    CLUSTERS,
    DEPLOYMENTS,
    LABEL_DEPLOYMENT,
    MACHINES,
    SETS,
    VSPHERE_CLUSTERS,
    VSPHERE_MACHINES,
    VSPHERE_VMS,
    Vm,
)
from laneway.simcluster.objects import NODES


class Caches:
    """A cache of each kind. Whoever owns them runs them."""

    def __init__(self, client: Client) -> None:
        self.clusters = Informer(client, CLUSTERS)
        self.deployments = Informer(client, DEPLOYMENTS)
        self.sets = Informer(client, SETS)
        self.machines = Informer(client, MACHINES)
        self.vsphere_clusters = Informer(client, VSPHERE_CLUSTERS)
        self.vsphere_machines = Informer(client, VSPHERE_MACHINES)
        self.vms = Informer(client, VSPHERE_VMS, indexers={"machine": machines_of})
        self.nodes = Informer(
            client, NODES, indexers={"provider": lambda node: [node.spec.provider_id]}
        )
        # Nobody waits for these: without Laneway's kinds there are none.
        self.hosts: Informer[VSphereHost] = Informer(
            client, served(VSphereHost), indexers={"name": lambda host: [host.status.host]}
        )

    def __iter__(self) -> Iterator[Informer[Any]]:
        yield from (self.clusters, self.deployments, self.sets, self.machines)
        yield from (self.vsphere_clusters, self.vsphere_machines, self.vms, self.nodes)

    def of_cluster(self, key: Key) -> list[tuple[str, Any]]:
        """Machines, and what makes them, of a cluster."""
        return [
            (kind, one)
            for kind, informer in (
                ("deployment", self.deployments),
                ("set", self.sets),
                ("machine", self.machines),
            )
            for one in informer.store
            if one.metadata.namespace == key.namespace and one.spec.cluster_name == key.name
        ]

    def cluster(self, obj: Any) -> Cluster | None:
        """The cluster that something belongs to."""
        return self.clusters.store.get(obj.spec.cluster_name, obj.metadata.namespace)


def machines_of(vm: Vm) -> list[str]:
    """The names of the VSphereMachines that a VSphereVM was made for."""
    return [ref.name for ref in vm.metadata.owner_references if ref.kind == VSPHERE_MACHINES.kind]


Add = Callable[[Key], None]


def by_key(add: Add) -> Callable[[Any, Any], None]:
    """Have an object looked at when it changes."""
    return lambda old, new: add(key_of(new or old))


def by_label(add: Add, label: str) -> Callable[[Any, Any], None]:
    """Have the object looked at that a label of a changed one names."""

    def changed(old: Any, new: Any) -> None:
        meta = (new or old).metadata
        if name := meta.labels.get(label):
            add(Key(meta.namespace, name))

    return changed


def by_cluster(add: Add) -> Callable[[Any, Any], None]:
    """Have the cluster looked at that a changed object belongs to."""
    return by_label(add, LABEL_CLUSTER)


def by_cluster_of(informer: Informer[Any], add: Add) -> Callable[[Any, Any], None]:
    """Have everything of a cache looked at that belongs to a changed Cluster."""

    def changed(old: Any, new: Any) -> None:
        meta = (new or old).metadata
        for one in informer.store:
            where = one.metadata.namespace, one.spec.cluster_name
            if where == (meta.namespace, meta.name):
                add(key_of(one))

    return changed


def by_deployment(add: Add) -> Callable[[Any, Any], None]:
    """Have the MachineDeployment looked at."""
    return by_label(add, LABEL_DEPLOYMENT)
