"""Instances that are to leave their node, and a migration for each.

KubeVirt's webhook sets `evacuationNodeName` when the eviction of a pod is requested; here a person
or a test does. It is cleared by the migration that went well.
"""

from __future__ import annotations

import contextlib
import hashlib
from datetime import UTC, datetime

from laneway.api import find_condition
from laneway.core.raw import JsonObject
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import MIGRATIONS, KubeVirt
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.simcluster.kubevirt.migrating import Migration, is_final, subject
from laneway.simcluster.kubevirt.objects import INSTANCES, Instance, desired

ANNOTATION = "kubevirt.io/evacuationMigration"
"""On a migration: the node that is to be left."""
_STRATEGIES = frozenset({"LiveMigrate", "LiveMigrateIfPossible"})
_PAUSE = 20.0
"""Seconds between two migrations, once one has failed."""


class EvacuationController:
    """Reconciles instances; its informers are run by who owns it."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        *,
        instances: Informer[Instance],
        migrations: Informer[Migration],
        installations: Informer[KubeVirt],
    ) -> None:
        """`migrations` has the index `instance`."""
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._recorder = recorder
        self._instances = instances
        self._migrations = migrations
        self._installations = installations
        instances.follow(self._ask)
        migrations.follow(lambda one: self.queue.add(subject(one)))

    def _ask(self, instance: Instance) -> None:
        if instance.status.evacuation_node_name:
            self.queue.add(key_of(instance))

    async def reconcile(self, key: Key) -> Retry | None:
        """Have one instance migrate, if it is to and can."""
        instance = self._instances.store.get(key.name, key.namespace)
        if instance is None or not self._is_to_go(instance):
            return None
        tried = self._migrations.store.by("instance", key)
        if not all(map(is_final, tried)):
            return None
        wait = max(map(_pause, tried), default=0.0)
        if wait > 0:
            return Retry(wait)
        body = _migration(instance, len(tried))
        with contextlib.suppress(AlreadyExistsError):  # its watch event follows
            made = await self._client.create(MIGRATIONS, body, key.namespace)
            text = f"Created Migration {made.metadata.name}"
            self._recorder.record(INSTANCES.ref(instance), "SuccessfulCreate", text)
        return None

    def _is_to_go(self, instance: Instance) -> bool:
        status = instance.status
        said = find_condition(status.conditions, "LiveMigratable")
        return (
            status.phase == "Running"
            and not instance.metadata.deletion_timestamp
            and status.evacuation_node_name == status.node_name
            and said is not None
            and said.status == "True"
            and self._strategy(instance) in _STRATEGIES
        )

    def _strategy(self, instance: Instance) -> str:
        if own := desired(instance).eviction_strategy:
            return own
        for installation in self._installations.store:
            return installation.spec.configuration.eviction_strategy
        return ""


def _pause(migration: Migration) -> float:
    """For how long none is to follow a migration that failed."""
    phases = migration.status.phase_transition_timestamps
    ended = phases[-1].phase_transition_timestamp if phases else None
    if migration.status.phase != "Failed" or ended is None:
        return 0.0
    return _PAUSE - (datetime.now(UTC) - datetime.fromisoformat(ended)).total_seconds()


def _migration(instance: Instance, tried: int) -> JsonObject:
    """Always the same until another is known, so that two looks cannot make two."""
    mark = f"{instance.metadata.uid} {instance.status.node_name} {tried}"
    return {
        "apiVersion": MIGRATIONS.api_version,
        "kind": MIGRATIONS.kind,
        "metadata": {
            "name": f"kubevirt-evacuation-{hashlib.sha256(mark.encode()).hexdigest()[:5]}",
            "annotations": {ANNOTATION: instance.status.node_name},
        },
        "spec": {"vmiName": instance.metadata.name, "priority": "system-critical"},
    }
