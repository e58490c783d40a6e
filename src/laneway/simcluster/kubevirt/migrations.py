"""VirtualMachineInstanceMigrations: a second pod on another node, and the instance goes there.

One controller does what virt-controller does anywhere and virt-handler on both nodes. Each look at
a migration takes it one phase further, by what its objects say, and every write is of the versions
that were looked at. So one that is killed goes on where it was, and an instance is never in two
pods: it is in the new one from the write that says so. How long the memory of a guest would take
is not simulated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeVar

import msgspec

from laneway.api import timestamp
from laneway.core.raw import Json, JsonObject, members
from laneway.kube.client import Client
from laneway.kube.controller import Retry
from laneway.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import MIGRATIONS
from laneway.kube.pods import PODS, Pod
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, KubeObject, Resource, key_of
from laneway.simcluster.kubevirt.launcher import LauncherError, device_paths
from laneway.simcluster.kubevirt.manifest import (
    ANNOTATION_MIGRATION,
    CONTAINER,
    MAX_LABEL,
    target_name,
    target_pod,
)
from laneway.simcluster.kubevirt.migrating import (
    Migration,
    Phase,
    arrived,
    handed_over,
    is_done,
    is_final,
    next_phase,
    obstacle,
    patience,
    started,
    stayed,
    subject,
    unschedulable,
)
from laneway.simcluster.kubevirt.objects import FINAL, INSTANCES, Instance, desired
from laneway.simcluster.runtime import Runtime

T = TypeVar("T", bound=KubeObject)

FINALIZER = "kubevirt.io/migrationJobFinalize"
LABEL_INSTANCE = "kubevirt.io/vmi-name"
"""On a migration: what it migrates."""
_AGAIN = 5.0
"""Seconds until a pod that the API server refused is tried again."""


class MigrationController:
    """Reconciles migrations; its informers are run by who owns it."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        runtimes: Mapping[str, Runtime],
        *,
        migrations: Informer[Migration],
        instances: Informer[Instance],
        pods: Informer[Pod],
    ) -> None:
        """`migrations` has the index `instance`, by `subject`."""
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._recorder = recorder
        self._runtimes = runtimes
        self._migrations = migrations
        self._instances = instances
        self._pods = pods
        migrations.follow(lambda migration: self.queue.add(key_of(migration)))
        instances.follow(self._instance_changed)
        pods.follow(self._pod_changed)

    def _instance_changed(self, instance: Instance) -> None:
        for migration in self._migrations.store.by("instance", key_of(instance)):
            self.queue.add(key_of(migration))

    def _pod_changed(self, pod: Pod) -> None:
        if name := pod.metadata.annotations.get(ANNOTATION_MIGRATION):
            self.queue.add(Key(pod.metadata.namespace, name))

    async def reconcile(self, key: Key) -> Retry | None:
        """Do the next step for one migration."""
        migration = self._migrations.store.get(key.name, key.namespace)
        if migration is None:
            return None
        with contextlib.suppress(ConflictError, NotFoundError):
            instance = await self._find(
                INSTANCES, self._instances, migration.spec.vmi_name, key.namespace
            )
            if instance is None:
                await self._forget(migration)
                return None
            if is_final(migration) and FINALIZER not in migration.metadata.finalizers:
                return None
            pod = await self._find(PODS, self._pods, target_name(migration), key.namespace)
            if is_final(migration):
                await self._clean(migration, instance, pod)
                return None
            others = self._migrations.store.by("instance", subject(migration))
            if why := obstacle(migration, instance, pod, others):
                self._recorder.record(
                    MIGRATIONS.ref(migration), "FailedMigration", why, warning=True
                )
                await self._write(migration, Phase.FAILED, failed=why)
                return None
            return await self._advance(migration, instance, pod)
        return None

    async def _find(
        self, resource: Resource[T], known: Informer[T], name: str, namespace: str
    ) -> T | None:
        """An object, or None when the server says so: a watch may only be late."""
        if (found := known.store.get(name, namespace)) is not None:
            return found
        try:
            return await self._client.get(resource, name, namespace)
        except NotFoundError:
            return None

    async def _advance(
        self, migration: Migration, instance: Instance, pod: Pod | None
    ) -> Retry | None:
        phase = migration.status.phase
        if phase == Phase.UNSET and FINALIZER not in migration.metadata.finalizers:
            await self._mark(migration)
            return None
        if phase == Phase.PENDING and pod is None:
            return await self._make_pod(migration, instance)
        if phase == Phase.SCHEDULING and pod is not None and unschedulable(pod):
            return await self._wait(migration, pod)
        if pod is not None and phase == Phase.READY and (why := self._opened(instance, pod)):
            await self._write(migration, Phase.FAILED, failed=why)
            return None
        if pod is not None:
            instance = await self._tell(migration, instance, pod)
        if (following := next_phase(migration, instance, pod)) == phase:
            return None
        if following == Phase.SUCCEEDED:
            self._leave(instance)
            text = "Source node reported migration succeeded"
            self._recorder.record(MIGRATIONS.ref(migration), "SuccessfulMigration", text)
        await self._write(migration, following, instance=instance)
        return None

    async def _mark(self, migration: Migration) -> None:
        """What KubeVirt's webhook adds to a new migration."""
        meta = migration.metadata
        metadata: JsonObject = {
            "resourceVersion": meta.resource_version,
            "finalizers": [*meta.finalizers, FINALIZER],
            "labels": {LABEL_INSTANCE: migration.spec.vmi_name[:MAX_LABEL]},
        }
        await self._client.patch(MIGRATIONS, meta.name, {"metadata": metadata}, meta.namespace)

    async def _make_pod(self, migration: Migration, instance: Instance) -> Retry | None:
        if instance.status.phase != "Running":
            return None
        body = target_pod(instance, migration)
        try:
            await self._client.create(PODS, body, instance.metadata.namespace)
        except AlreadyExistsError:
            return None  # the watch will show it
        except (ForbiddenError, InvalidError) as error:
            text = f"Error creating pod: {error.message}"
            self._recorder.record(MIGRATIONS.ref(migration), "FailedCreate", text, warning=True)
            return Retry(_AGAIN)
        return None

    async def _wait(self, migration: Migration, pod: Pod) -> Retry | None:
        """Give the scheduler some time; what it says stands on the pod."""
        name = f"{pod.metadata.namespace}/{migration.spec.vmi_name}"
        text = f"Migration target pod for VMI [{name}] is currently unschedulable."
        about = MIGRATIONS.ref(migration)
        self._recorder.record(about, "migrationTargetPodUnschedulable", text, warning=True)
        made = datetime.fromisoformat(pod.metadata.creation_timestamp)
        left = patience(migration) - (datetime.now(UTC) - made).total_seconds()
        if left > 0:
            return Retry(left)
        await self._delete(pod)
        text = f"unschedulable pod {key_of(pod)} timeout period exceeded"
        self._recorder.record(about, "SuccessfulDelete", text)
        return None

    async def _tell(self, migration: Migration, instance: Instance, pod: Pod) -> Instance:
        """Say on the instance what the phase of its migration means for it, unless it is said."""
        phase, now = migration.status.phase, timestamp(datetime.now(UTC))
        state = instance.status.migration_state
        body: JsonObject | None = None
        if phase == Phase.SCHEDULED:
            if state is None or state.migration_uid != migration.metadata.uid:
                body = handed_over(migration, instance, pod)
        elif phase == Phase.READY:
            if state is not None and not state.start_timestamp:
                body = started(now)
        elif phase == Phase.RUNNING and not is_done(migration, instance):
            source = None if state is None else self._pod_of(instance, state.source_pod)
            body = arrived(pod, "" if source is None else source.metadata.uid, now)
        return instance if body is None else await self._patch(instance, body)

    def _opened(self, instance: Instance, pod: Pod) -> str:
        """Have the new pod's process open its devices; why it cannot, in words."""
        runtime, uid = self._runtimes.get(pod.spec.node_name), pod.metadata.uid
        workload = None if runtime is None else runtime.get(uid)
        if runtime is None or workload is None or workload.opened:
            return ""
        devices = desired(instance).domain.devices
        try:
            paths = device_paths(workload.environment.get(CONTAINER, {}), devices)
            runtime.open(uid, paths)
        except (LauncherError, OSError) as error:
            return f"failed to prepare the target domain: {error}"
        return ""

    def _leave(self, instance: Instance) -> None:
        """What ran on the source ends; it may have done so before we were killed."""
        state = instance.status.migration_state
        source = None if state is None else self._pod_of(instance, state.source_pod)
        if source is None:
            return
        uid = source.metadata.uid
        runtime = self._runtimes.get(source.spec.node_name)
        workload = None if runtime is None else runtime.get(uid)
        if runtime is not None and workload is not None and workload.exit_code is None:
            runtime.exit(uid)

    def _pod_of(self, instance: Instance, name: str) -> Pod | None:
        return self._pods.store.get(name, instance.metadata.namespace)

    async def _clean(self, migration: Migration, instance: Instance, pod: Pod | None) -> None:
        """Leave nothing of a migration that failed; let the object of any go."""
        if migration.status.phase == Phase.FAILED and not is_done(migration, instance):
            if pod is not None and not pod.metadata.deletion_timestamp:
                await self._delete(pod)
            state = instance.status.migration_state
            mine = state is not None and state.migration_uid == migration.metadata.uid
            if mine and state is not None and not state.completed:
                said = migration.status.migration_state
                why = "" if said is None else said.failure_reason
                body = stayed(pod, why, timestamp(datetime.now(UTC)))
                instance = await self._patch(instance, body)
        await self._release(migration)

    async def _forget(self, migration: Migration) -> None:
        """Its instance is gone."""
        meta = migration.metadata
        if not meta.deletion_timestamp:
            await self._client.delete(MIGRATIONS, meta.name, meta.namespace, uid=meta.uid)
        await self._release(migration)

    async def _release(self, migration: Migration) -> None:
        meta = migration.metadata
        left = [name for name in meta.finalizers if name != FINALIZER]
        if len(left) < len(meta.finalizers):
            metadata = {"resourceVersion": meta.resource_version, "finalizers": left or None}
            await self._client.patch(MIGRATIONS, meta.name, {"metadata": metadata}, meta.namespace)

    async def _delete(self, pod: Pod) -> None:
        meta = pod.metadata
        await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)

    async def _patch(self, instance: Instance, body: JsonObject) -> Instance:
        """Change the version of an instance that was looked at. There is no status subresource."""
        meta = instance.metadata
        metadata = {**members(body.get("metadata")), "resourceVersion": meta.resource_version}
        return await self._client.patch(
            INSTANCES, meta.name, {**body, "metadata": metadata}, meta.namespace
        )

    async def _write(
        self,
        migration: Migration,
        phase: str,
        *,
        instance: Instance | None = None,
        failed: str = "",
    ) -> None:
        meta = migration.metadata
        now = timestamp(datetime.now(UTC))
        entry = {"phase": phase, "phaseTransitionTimestamp": now}
        before: list[Json] = msgspec.to_builtins(migration.status.phase_transition_timestamps)
        status: dict[str, Json] = {
            "phase": phase,
            "phaseTransitionTimestamps": [*before, entry],
        }
        if failed:
            status["migrationState"] = {
                "completed": True,
                "failed": True,
                "failureReason": failed,
                "migrationUid": meta.uid,
            }
        elif phase in FINAL and instance is not None:
            status["migrationState"] = msgspec.to_builtins(instance.status.migration_state)
        body = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        await self._client.patch(MIGRATIONS, meta.name, body, meta.namespace, subresource="status")
