"""Frees a node that is cordoned: pods are evicted, VMs migrate, and none is stopped unasked.

Evictions are requests that disruption budgets may refuse; they are repeated until the node is free.
What would be lost with its node is left alone and named: a pod that nothing would make again. So
are pods that belong to the node itself, of DaemonSets and of the kubelet's own files.

A VM is migrated by an object of KubeVirt's, whatever its eviction strategy. One that cannot be
migrated is stopped only where every policy of the node says so, by deleting its instance: whether
it starts again elsewhere is its own run strategy's matter.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from laneway.api import ObjectMeta
from laneway.core.rollout.node import Vm
from laneway.kube.client import Client
from laneway.kube.errors import AlreadyExistsError, ApiError, ConflictError, NotFoundError
from laneway.kube.kubevirt import (
    INSTANCES,
    LABEL_CREATED_BY,
    MIGRATIONS,
    VirtualMachineInstance,
    VirtualMachineInstanceMigration,
)
from laneway.kube.pods import PODS, Pod
from laneway.kube.resource import key_of

log = logging.getLogger(__name__)

MIRROR = "kubernetes.io/config.mirror"
"""On a pod that its kubelet has read from a file."""
LABEL_MIGRATION = "devices.harvesterhci.io/laneway-drains"
"""On a migration: the uid of the instance that it moves."""
AGAIN = timedelta(seconds=60)
"""After a migration that failed."""
_ENDED = frozenset({"Succeeded", "Failed"})
_REFUSED = 429


class Left(NamedTuple):
    """What is still on a node."""

    evictable: tuple[Pod, ...] = ()
    alone: tuple[Pod, ...] = ()
    """Those that nothing would make again."""

    @property
    def names(self) -> tuple[str, ...]:
        """For people."""
        without = (f"{key_of(pod)} (has no controller: delete it)" for pod in self.alone)
        return (*without, *(str(key_of(pod)) for pod in self.evictable))


async def pods_on(client: Client, node: str) -> Left:
    """The pods that must go before the node does, asked of the server at this moment."""
    evictable: list[Pod] = []
    alone: list[Pod] = []
    async for page in client.list(PODS, field_selector=f"spec.nodeName={node}"):
        for item in page.items:
            pod = PODS.decode(item)
            if pod.status.phase in _ENDED or _stays(pod.metadata):
                continue
            owned = any(one.controller for one in pod.metadata.owner_references)
            (evictable if owned else alone).append(pod)
    return Left(tuple(evictable), tuple(alone))


def _stays(meta: ObjectMeta) -> bool:
    if MIRROR in meta.annotations or LABEL_CREATED_BY in meta.labels:
        return True  # a pod that runs a VM goes with the VM
    return any(one.controller and one.kind == "DaemonSet" for one in meta.owner_references)


async def evict(client: Client, pods: Iterable[Pod]) -> None:
    """Ask for the eviction of each pod; a budget that refuses it is asked again later."""
    for pod in pods:
        meta = pod.metadata
        if meta.deletion_timestamp:
            continue
        # Without a version: it is another one before Kubernetes 1.22.
        body: dict[str, Any] = {
            "metadata": {"name": meta.name, "namespace": meta.namespace},
            "deleteOptions": {"preconditions": {"uid": meta.uid}},
        }
        try:
            await client.unwaiting().act(PODS, meta.name, "eviction", body, meta.namespace)
        except (NotFoundError, ConflictError):
            continue
        except ApiError as error:
            if error.code != _REFUSED:
                raise
            log.info("pod %s stays for now: %s", key_of(pod), error.message)


async def move(
    client: Client, instances: Sequence[VirtualMachineInstance], vms: Sequence[Vm], *, stop: bool
) -> None:
    """Have each VM go: by migration, or by its end where it cannot migrate and `stop` says so."""
    stays = {vm.name: vm.stays for vm in vms}
    for instance in instances:
        name = str(key_of(instance))
        if instance.metadata.deletion_timestamp or name not in stays:
            continue
        if not stays[name]:
            await _migrate(client, instance)
        elif stop:
            meta = instance.metadata
            with contextlib.suppress(NotFoundError, ConflictError):
                await client.delete(INSTANCES, meta.name, meta.namespace, uid=meta.uid)
                log.info("stopped VM %s, which %s", name, stays[name])


async def _migrate(client: Client, instance: VirtualMachineInstance) -> None:
    meta = instance.metadata
    tried = 0
    async for page in client.list(
        MIGRATIONS, meta.namespace, label_selector=f"{LABEL_MIGRATION}={meta.uid}"
    ):
        for item in page.items:
            one = MIGRATIONS.decode(item)
            if one.status.phase not in _ENDED or not _is_old(one):
                return
            tried += 1
    body = {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {
            # Another leader that asks at the same time asks for the same object.
            "name": f"laneway-{meta.uid}-{tried}",
            "labels": {LABEL_MIGRATION: meta.uid},
        },
        "spec": {"vmiName": meta.name},
    }
    with contextlib.suppress(AlreadyExistsError):
        await client.create(MIGRATIONS, body, meta.namespace)
        log.info("requested the migration of VM %s", key_of(instance))


def _is_old(migration: VirtualMachineInstanceMigration) -> bool:
    """Whether a migration that ended is long enough ago to try another."""
    with contextlib.suppress(ValueError):
        made = datetime.fromisoformat(migration.metadata.creation_timestamp)
        return datetime.now(UTC) - made > AGAIN
    return True
