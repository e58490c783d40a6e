"""MachineDeployments: a MachineSet for every template that they have had, sized step by step."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key
from laneway.simcluster.clusterapi.caches import Caches, by_cluster_of, by_deployment, by_key
from laneway.simcluster.clusterapi.objects import (
    DEPLOYMENTS,
    LABEL_DEPLOYMENT,
    LABEL_TEMPLATE,
    SETS,
    MachineDeployment,
    MachineSet,
    condition,
    controlled,
    owner,
)
from laneway.simcluster.clusterapi.rollout import SetSize, limits, resized
from laneway.simcluster.clusterapi.writing import create, hold, let_go, remove, write_status

FINALIZER = "cluster.x-k8s.io/machinedeployment"


class DeploymentController:
    """Reconciles MachineDeployments. To be run by one worker: it decides by what it has written."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._caches = caches
        caches.deployments.follow(by_key(self.queue.add))
        caches.sets.follow(by_deployment(self.queue.add))
        caches.clusters.follow(by_cluster_of(caches.deployments, self.queue.add))

    async def reconcile(self, key: Key) -> None:
        """Do what is next for one MachineDeployment."""
        deployment = self._caches.deployments.store.get(key.name, key.namespace)
        if deployment is None:
            return
        sets = await self._sets(deployment)
        meta = deployment.metadata
        if meta.deletion_timestamp:
            for one in sets:
                await remove(self._client, SETS, one.metadata)
            if not sets:
                await let_go(self._client, DEPLOYMENTS, meta, FINALIZER)
            return
        cluster = self._caches.cluster(deployment)
        if cluster is None or cluster.spec.paused or deployment.spec.paused:
            return
        await hold(self._client, DEPLOYMENTS, meta, FINALIZER)
        new = await self._newest(deployment, sets)
        if new is None:
            return  # just made: its watch asks again
        old = [one for one in sets if one.metadata.uid != new.metadata.uid]
        await self._resize(deployment, new, old)
        await self._tell(deployment, new, old)

    async def _sets(self, deployment: MachineDeployment) -> list[MachineSet]:
        """As the server has them now: the sizes that were just written count."""
        meta = deployment.metadata
        pages = self._client.list(
            SETS, meta.namespace, label_selector=f"{LABEL_DEPLOYMENT}={meta.name}"
        )
        found = [SETS.decode(item) async for page in pages for item in page.items]
        return sorted(controlled(found, meta.uid), key=lambda one: one.metadata.creation_timestamp)

    async def _newest(
        self, deployment: MachineDeployment, sets: Sequence[MachineSet]
    ) -> MachineSet | None:
        """The set of the present template; made where there is none."""
        template = template_hash(deployment)
        for one in sets:
            if one.metadata.labels.get(LABEL_TEMPLATE) == template:
                return one
        try:
            await create(
                self._client, SETS, _set(deployment, template), deployment.metadata.namespace
            )
        except AlreadyExistsError:
            return None  # an older one of that name is on its way out
        return None

    async def _resize(
        self, deployment: MachineDeployment, new: MachineSet, old: Sequence[MachineSet]
    ) -> None:
        desired = _replicas(deployment)
        rolling = deployment.spec.rollout.strategy.rolling_update
        surge, unavailable = limits(desired, rolling.max_surge, rolling.max_unavailable)
        sizes = [_size(one) for one in old]
        changes = resized(desired, _size(new), sizes, surge=surge, unavailable=unavailable)
        for name, replicas in changes.items():
            body = {"spec": {"replicas": replicas}}
            await self._client.patch(SETS, name, body, deployment.metadata.namespace)
        for one in old:
            if one.spec.replicas == 0 and one.status.replicas == 0:
                await remove(self._client, SETS, one.metadata)

    async def _tell(
        self, deployment: MachineDeployment, new: MachineSet, old: Sequence[MachineSet]
    ) -> None:
        desired = _replicas(deployment)
        all_sets = [new, *old]
        replicas, ready, available = (
            sum(getattr(one.status, name) or 0 for one in all_sets)
            for name in ("replicas", "ready_replicas", "available_replicas")
        )
        rolling = deployment.spec.rollout.strategy.rolling_update
        _, unavailable = limits(desired, rolling.max_surge, rolling.max_unavailable)
        enough = available >= desired - unavailable
        if replicas > desired:
            phase = "ScalingDown"
        else:
            phase = "Running" if replicas == available == desired else "ScalingUp"
        text = "" if enough else f"{available} available replicas, at least {desired} required"
        await write_status(
            self._client,
            DEPLOYMENTS,
            deployment,
            condition("Available", enough, "Available" if enough else "NotAvailable", text),
            phase=phase,
            replicas=replicas,
            readyReplicas=ready,
            availableReplicas=available,
            upToDateReplicas=new.status.replicas or 0,
            selector=_selector(deployment),
            observedGeneration=deployment.metadata.generation,
        )


def template_hash(deployment: MachineDeployment) -> str:
    """What tells one template from another."""
    template = deployment.spec.template
    kept = {"spec": template.spec, "labels": template.metadata.labels}
    text = msgspec.json.encode(kept, order="sorted")
    return hashlib.sha256(text).hexdigest()[:10]


def _replicas(deployment: MachineDeployment) -> int:
    replicas = deployment.spec.replicas
    return 1 if replicas is None else max(0, replicas)


def _size(one: MachineSet) -> SetSize:
    return SetSize(one.metadata.name, one.spec.replicas or 0, one.status.available_replicas or 0)


def _selector(deployment: MachineDeployment) -> str:
    labels = deployment.spec.selector.match_labels or _labels(deployment)
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def _labels(deployment: MachineDeployment) -> dict[str, str]:
    return {
        LABEL_CLUSTER: deployment.spec.cluster_name,
        LABEL_DEPLOYMENT: deployment.metadata.name,
    }


def _set(deployment: MachineDeployment, template: str) -> JsonObject:
    """The first version of a set: without machines, which it gets like any other."""
    meta, spec = deployment.metadata, deployment.spec
    own = {**_labels(deployment), LABEL_TEMPLATE: template}
    labels = {**spec.template.metadata.labels, **own}
    body: JsonObject = {
        "clusterName": spec.cluster_name,
        "replicas": 0,
        "selector": {"matchLabels": {**spec.selector.match_labels, **own}},
        "template": {
            "metadata": {
                "labels": labels,
                **_annotations(spec.template.metadata.annotations),
            },
            "spec": spec.template.spec,
        },
        "deletion": {"order": spec.deletion.order} if spec.deletion.order else None,
    }
    return {
        "metadata": {
            "name": f"{meta.name}-{template}",
            "labels": labels,
            "ownerReferences": [owner(DEPLOYMENTS, meta)],
        },
        "spec": {name: value for name, value in body.items() if value is not None},
    }


def _annotations(annotations: Mapping[str, str]) -> JsonObject:
    return {"annotations": annotations} if annotations else {}
