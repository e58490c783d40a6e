"""Clusters: their infrastructure, how to reach them, and what goes when they go.

There is no control plane but the API server itself, so a cluster has one once its infrastructure is
there, and its kubeconfig is that of this server.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from laneway.api import find_condition
from laneway.core.raw import Json
from laneway.kube.client import Client, PatchType
from laneway.kube.clusterapi import LABEL_CLUSTER, Cluster
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key
from laneway.simcluster.clusterapi.caches import Caches, by_cluster, by_key
from laneway.simcluster.clusterapi.objects import (
    CLUSTERS,
    SECRET_TYPE,
    SECRETS,
    Infra,
    Part,
    condition,
    owner,
)
from laneway.simcluster.clusterapi.writing import hold, let_go, remove, write_status

FINALIZER = "cluster.cluster.x-k8s.io"


class ClusterController:
    """Reconciles Clusters."""

    def __init__(self, client: Client, caches: Caches, kubeconfig: Callable[[], bytes]) -> None:
        """`kubeconfig`: how workload clusters are reached."""
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._caches = caches
        self._kubeconfig = kubeconfig
        self._published: set[str] = set()
        caches.clusters.follow(by_key(self.queue.add))
        caches.infra_clusters.follow(by_cluster(self.queue.add))
        caches.infra_clusters.follow(self._infrastructure_changed)
        made: list[Informer[Part]] = [caches.deployments, caches.sets, caches.machines]
        for informer in made:
            informer.subscribe(self._part_changed)

    def _part_changed(self, old: Part | None, new: Part | None) -> None:
        if new is None and old is not None:
            self.queue.add(Key(old.metadata.namespace, old.spec.cluster_name))

    def _infrastructure_changed(self, infra: Infra) -> None:
        """It may have been made after its Cluster, and not be labelled yet."""
        meta = infra.metadata
        for cluster in self._caches.clusters.store:
            ref = cluster.spec.infrastructure_ref
            if (cluster.metadata.namespace, ref.name) == (meta.namespace, meta.name):
                self.queue.add(Key(meta.namespace, cluster.metadata.name))

    async def reconcile(self, key: Key) -> None:
        """Do what is next for one cluster."""
        cluster = self._caches.clusters.store.get(key.name, key.namespace)
        if cluster is None or (cluster.spec.paused and not cluster.metadata.deletion_timestamp):
            return
        name = cluster.spec.infrastructure_ref.name
        infra = self._caches.infra_clusters.store.get(name, key.namespace) if name else None
        if cluster.metadata.deletion_timestamp:
            await self._delete(key, cluster, infra)
            return
        await hold(self._client, CLUSTERS, cluster.metadata, FINALIZER)
        if infra is not None:
            await self._own(cluster, infra)
        await self._tell(cluster, infra)

    async def _own(self, cluster: Cluster, infra: Infra) -> None:
        meta = infra.metadata
        if any(ref.uid == cluster.metadata.uid for ref in meta.owner_references):
            return
        body = {
            "labels": {LABEL_CLUSTER: cluster.metadata.name},
            "ownerReferences": [owner(CLUSTERS, cluster.metadata)],
            "resourceVersion": meta.resource_version,
        }
        kind = self._caches.provider.clusters
        await self._client.patch(kind, meta.name, {"metadata": body}, meta.namespace)

    async def _tell(self, cluster: Cluster, infra: Infra | None) -> None:
        there = cluster.status.initialization.infrastructure_provisioned or (
            infra is not None and infra.provisioned
        )
        if there:
            await self._publish(cluster)
        known = find_condition(infra.status.conditions, "Ready") if infra is not None else None
        ready = bool(there and (known is None or known.status == "True"))
        name = cluster.spec.infrastructure_ref.name
        if infra is None:
            kind = self._caches.provider.clusters.kind
            reason, text = "InfrastructureDoesNotExist", f"there is no {kind} {name}"
        elif known is not None and not ready:
            reason, text = known.reason or "NotReady", known.message
        else:
            reason, text = ("Ready", "") if ready else ("NotReady", "it is being provisioned")
        fields: dict[str, Json] = {"phase": "Provisioned" if there else "Provisioning"}
        if there:
            fields["initialization"] = {
                "infrastructureProvisioned": True,
                "controlPlaneInitialized": True,
            }
        await write_status(
            self._client,
            CLUSTERS,
            cluster,
            condition("InfrastructureReady", ready, reason, text),
            condition("Available", ready, "Available" if ready else "NotAvailable", text),
            **fields,
        )

    async def _publish(self, cluster: Cluster) -> None:
        """Say once per start how the cluster is reached: the address may be another one."""
        meta = cluster.metadata
        if meta.uid in self._published:
            return
        name = f"{meta.name}-kubeconfig"
        body = {
            "apiVersion": SECRETS.api_version,
            "kind": SECRETS.kind,
            "metadata": {
                "name": name,
                "namespace": meta.namespace,
                "labels": {LABEL_CLUSTER: meta.name},
                "ownerReferences": [owner(CLUSTERS, meta)],
            },
            "type": SECRET_TYPE,
            "data": {"value": base64.b64encode(self._kubeconfig()).decode()},
        }
        await self._client.patch(
            SECRETS,
            name,
            body,
            meta.namespace,
            patch_type=PatchType.APPLY,
            field_manager="cluster-api",
            force=True,
        )
        self._published.add(meta.uid)

    async def _delete(self, key: Key, cluster: Cluster, infra: Infra | None) -> None:
        """Machines first, then the infrastructure, then the cluster itself."""
        await write_status(self._client, CLUSTERS, cluster, phase="Deleting")
        if FINALIZER not in cluster.metadata.finalizers:
            return
        left = self._caches.of_cluster(key)
        for resource, one in left:
            await remove(self._client, resource, one.metadata)
        if left:
            return
        if infra is not None:
            await remove(self._client, self._caches.provider.clusters, infra.metadata)
            return
        await let_go(self._client, CLUSTERS, cluster.metadata, FINALIZER)
