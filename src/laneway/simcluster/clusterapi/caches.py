"""What these controllers know of the cluster, and their listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laneway.api.vsphere import VSphereHost
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER, Cluster
from laneway.kube.informer import Informer
from laneway.kube.resource import Key, KubeObject, Resource, key_of, served
from laneway.simcluster.clusterapi.objects import (
    CLUSTERS,
    DEPLOYMENTS,
    LABEL_DEPLOYMENT,
    MACHINES,
    SETS,
    VSPHERE_MACHINES,
    VSPHERE_VMS,
    Part,
    Provider,
    Vm,
)
from laneway.simcluster.objects import NODES


class Caches:
    """A cache of each kind. Their owner runs them."""

    def __init__(self, client: Client, provider: Provider) -> None:
        self.provider = provider
        self.clusters = Informer(client, CLUSTERS)
        self.deployments = Informer(client, DEPLOYMENTS)
        self.sets = Informer(client, SETS)
        self.machines = Informer(client, MACHINES)
        self.infra_clusters = Informer(client, provider.clusters)
        self.infra_machines = Informer(client, provider.machines)
        self.vms = Informer(client, VSPHERE_VMS, indexers={"machine": machines_of})
        self.nodes = Informer(
            client, NODES, indexers={"provider": lambda node: [node.spec.provider_id]}
        )
        # These are not waited for: without Laneway's kinds there are none.
        self.hosts: Informer[VSphereHost] = Informer(
            client, served(VSphereHost), indexers={"name": lambda host: [host.status.host]}
        )

    def __iter__(self) -> Iterator[Informer[KubeObject]]:
        yield from (self.clusters, self.deployments, self.sets, self.machines)
        yield from (self.infra_clusters, self.infra_machines, self.nodes)

    def of_cluster(self, key: Key) -> list[tuple[Resource[Part], Part]]:
        """Machines, and what makes them, of a cluster."""
        return [
            (resource, one)
            for resource, informer in (
                (DEPLOYMENTS, self.deployments),
                (SETS, self.sets),
                (MACHINES, self.machines),
            )
            for one in informer.store
            if _cluster(one) == key
        ]

    def cluster(self, part: Part) -> Cluster | None:
        """The cluster that something belongs to."""
        return self.clusters.store.get(part.spec.cluster_name, part.metadata.namespace)


def machines_of(vm: Vm) -> list[str]:
    """The names of the VSphereMachines that a VSphereVM was made for."""
    return [ref.name for ref in vm.metadata.owner_references if ref.kind == VSPHERE_MACHINES.kind]


def _cluster(part: Part) -> Key:
    return Key(part.metadata.namespace, part.spec.cluster_name)


Add = Callable[[Key], None]
Changed = Callable[[KubeObject], None]


def by_key(add: Add) -> Changed:
    """Have an object looked at when it changes."""
    return lambda one: add(key_of(one))


def by_label(add: Add, label: str) -> Changed:
    """Have the object looked at that a label of a changed one names."""

    def changed(one: KubeObject) -> None:
        if name := one.metadata.labels.get(label):
            add(Key(one.metadata.namespace, name))

    return changed


def by_cluster(add: Add) -> Changed:
    """Have the cluster looked at that a changed object belongs to."""
    return by_label(add, LABEL_CLUSTER)


def by_cluster_of(informer: Informer[Part], add: Add) -> Changed:
    """Have everything of a cache looked at that belongs to a changed Cluster."""

    def changed(cluster: KubeObject) -> None:
        for one in informer.store:
            if _cluster(one) == key_of(cluster):
                add(key_of(one))

    return changed


def by_deployment(add: Add) -> Changed:
    """Have the MachineDeployment looked at."""
    return by_label(add, LABEL_DEPLOYMENT)
