"""MachineSets: as many Machines as desired, and their status."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from laneway.api import find_condition
from laneway.core.raw import JsonObject, members
from laneway.kube.client import Client
from laneway.kube.clusterapi import LABEL_CLUSTER, Machine
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key
from laneway.simcluster.clusterapi.caches import Caches, by_cluster_of, by_key, by_label
from laneway.simcluster.clusterapi.objects import (
    ANNOTATION_DELETE,
    ANNOTATION_FROM,
    ANNOTATION_FROM_KIND,
    LABEL_SET,
    MACHINES,
    SETS,
    MachineSet,
    controlled,
    owner,
)
from laneway.simcluster.clusterapi.writing import create, hold, let_go, remove, write_status

FINALIZER = "cluster.x-k8s.io/machineset"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names, as Kubernetes chooses them: no words come about by chance."""


class SetController:
    """Reconciles MachineSets. To be run by one worker: it decides by what it has written."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._caches = caches
        caches.sets.follow(by_key(self.queue.add))
        caches.machines.follow(by_label(self.queue.add, LABEL_SET))
        caches.clusters.follow(by_cluster_of(caches.sets, self.queue.add))

    async def reconcile(self, key: Key) -> None:
        """Do what is next for one MachineSet."""
        found = self._caches.sets.store.get(key.name, key.namespace)
        if found is None:
            return
        machines = await self._machines(found)
        if found.metadata.deletion_timestamp:
            for one in machines:
                await remove(self._client, MACHINES, one.metadata)
            if not machines:
                await let_go(self._client, SETS, found.metadata, FINALIZER)
            return
        cluster = self._caches.cluster(found)
        if cluster is None or cluster.spec.paused or cluster.metadata.deletion_timestamp:
            return
        await hold(self._client, SETS, found.metadata, FINALIZER)
        await self._resize(found, [one for one in machines if not one.metadata.deletion_timestamp])
        await self._tell(found, machines)

    async def _machines(self, found: MachineSet) -> list[Machine]:
        """As the server has them now: those that were just made count."""
        meta = found.metadata
        pages = self._client.list(
            MACHINES, meta.namespace, label_selector=f"{LABEL_SET}={meta.name}"
        )
        machines = [MACHINES.decode(item) async for page in pages for item in page.items]
        return controlled(machines, meta.uid)

    async def _resize(self, found: MachineSet, machines: Sequence[Machine]) -> None:
        wanted = max(0, found.spec.replicas or 0)
        for _ in range(wanted - len(machines)):
            await create(self._client, MACHINES, _machine(found), found.metadata.namespace)
        for one in to_delete(machines, len(machines) - wanted, found.spec.deletion.order):
            await remove(self._client, MACHINES, one.metadata)

    async def _tell(self, found: MachineSet, machines: Sequence[Machine]) -> None:
        """Machines on their way out are counted as well: they hold what they have."""
        ready = sum(is_ready(one) for one in machines if not one.metadata.deletion_timestamp)
        labels = found.spec.selector.match_labels
        await write_status(
            self._client,
            SETS,
            found,
            replicas=len(machines),
            readyReplicas=ready,
            availableReplicas=ready,
            upToDateReplicas=len(machines),
            selector=",".join(f"{name}={value}" for name, value in sorted(labels.items())),
            observedGeneration=found.metadata.generation,
        )


def is_ready(machine: Machine) -> bool:
    """Whether it works."""
    found = find_condition(machine.status.conditions, "Ready")
    return found is not None and found.status == "True"


def to_delete(machines: Sequence[Machine], count: int, order: str) -> list[Machine]:
    """Which machines go: the marked ones, then those that do not work, then by age."""

    def rank(one: Machine) -> tuple[bool, bool]:
        return ANNOTATION_DELETE not in one.metadata.annotations, is_ready(one)

    newest = sorted(machines, key=_made, reverse=order != "Oldest")
    return sorted(newest, key=rank)[: max(0, count)]


def _made(machine: Machine) -> tuple[str, str]:
    return machine.metadata.creation_timestamp, machine.metadata.name


def _machine(found: MachineSet) -> JsonObject:
    """A machine, and in its annotations what its infrastructure is to be cloned from."""
    name = f"{found.metadata.name}-{''.join(secrets.choice(_LETTERS) for _ in range(5))}"
    template = found.spec.template
    ref = members(template.spec.get("infrastructureRef"))
    kind = str(ref.get("kind", ""))
    cloned = {
        ANNOTATION_FROM: str(ref.get("name", "")),
        ANNOTATION_FROM_KIND: f"{kind}.{ref.get('apiGroup', '')}",
    }
    return {
        "metadata": {
            "name": name,
            "labels": {
                **template.metadata.labels,
                LABEL_CLUSTER: found.spec.cluster_name,
                LABEL_SET: found.metadata.name,
            },
            "annotations": {**template.metadata.annotations, **cloned},
            "ownerReferences": [owner(SETS, found.metadata)],
        },
        "spec": {
            **template.spec,
            "clusterName": found.spec.cluster_name,
            "infrastructureRef": {**ref, "kind": kind.removesuffix("Template"), "name": name},
        },
    }
