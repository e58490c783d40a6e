"""VirtualMachineInstances: a pod for each, and a domain in it that has its devices open.

One controller does what virt-controller does anywhere and virt-handler on the node: the pod is made
once all devices are permitted, the domain is started once the pod runs, and what becomes of the pod
becomes of the instance. Phases only go forward. A domain that cannot be started fails its instance.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from laneway.api import Condition, find_condition, set_condition, timestamp
from laneway.core.raw import Json, at, items, members
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
from laneway.kube.kubevirt import LABEL_CREATED_BY, KubeVirt, PermittedHostDevices
from laneway.kube.pods import PODS, Pod
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.simcluster.kubevirt.launcher import LauncherError, device_paths
from laneway.simcluster.kubevirt.manifest import CONTAINER, current_pod, launcher_pod, refused
from laneway.simcluster.kubevirt.migrating import migratable
from laneway.simcluster.kubevirt.objects import (
    FINAL,
    FINALIZER_INSTANCE,
    INSTANCES,
    LABEL_NODE,
    Instance,
    desired,
)
from laneway.simcluster.objects import ENDED
from laneway.simcluster.runtime import Runtime

_AGAIN = 5.0
"""Seconds until a pod that no node took is tried again."""
_GUEST_NOT_RUNNING = "Guest VM is not reported as running"


class InstanceController:
    """Reconciles VirtualMachineInstances; its informers are run by who owns it."""

    def __init__(
        self,
        client: Client,
        recorder: EventRecorder,
        runtimes: Mapping[str, Runtime],
        *,
        instances: Informer[Instance],
        pods: Informer[Pod],
        installations: Informer[KubeVirt],
    ) -> None:
        """`runtimes`: by node; of nodes without one no instance gets beyond its pod.

        `pods` has the index `instance`, by uid.
        """
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._recorder = recorder
        self._runtimes = runtimes
        self._instances = instances
        self._pods = pods
        self._installations = installations
        instances.follow(self._ask)
        pods.follow(self._pod_changed)
        installations.subscribe(lambda _old, _new: self._ask_waiting())

    def _ask(self, instance: Instance) -> None:
        self.queue.add(key_of(instance))

    def _pod_changed(self, pod: Pod) -> None:
        uid = pod.metadata.labels.get(LABEL_CREATED_BY, "")
        for instance in self._instances.store.by("uid", uid):
            self._ask(instance)

    def _ask_waiting(self) -> None:
        """What is permitted has changed: look again at whatever has no pod yet."""
        for instance in self._instances.store:
            if instance.status.phase in ("", "Pending"):
                self._ask(instance)

    async def reconcile(self, key: Key) -> Retry | None:
        """Do the next step for one instance."""
        instance = self._instances.store.get(key.name, key.namespace)
        if instance is None:
            return None
        pod = self._pods.store.get(current_pod(instance), key.namespace)
        with contextlib.suppress(ConflictError, NotFoundError):
            if instance.metadata.deletion_timestamp:
                await self._end(instance)
            elif instance.status.phase in ("", "Pending"):
                return await self._make_pod(instance, pod)
            elif instance.status.phase not in FINAL:
                await self._follow(instance, pod)
        return None

    async def _make_pod(self, instance: Instance, pod: Pod | None) -> Retry | None:
        if pod is None:
            problem = refused(instance, self._permitted())
            if not problem:
                try:
                    await self._client.create(
                        PODS, launcher_pod(instance), instance.metadata.namespace
                    )
                except AlreadyExistsError:
                    pass  # the watch will show it
                except (ForbiddenError, InvalidError) as error:
                    problem = f"failed to create virtual machine pod: {error.message}"
            else:
                problem = f"failed to render launch manifest: {problem}"
            if problem:
                await self._not_created(instance, problem)
                return Retry(_AGAIN)
        waiting = _not_ready("GuestNotRunning", _GUEST_NOT_RUNNING)
        await self._write(instance, "Scheduling", [waiting], dropped=("Synchronized",))
        return None

    async def _not_created(self, instance: Instance, problem: str) -> None:
        said = find_condition(instance.status.conditions, "Synchronized")
        if said is None or said.message != problem:
            self._recorder.record(INSTANCES.ref(instance), "FailedCreate", problem, warning=True)
        failed = Condition(
            type="Synchronized", status="False", reason="FailedCreate", message=problem
        )
        waiting = _not_ready("PodNotExists", "virt-launcher pod has not yet been scheduled")
        await self._write(instance, "Pending", [failed, waiting])

    async def _follow(self, instance: Instance, pod: Pod | None) -> None:
        """Become what the pod has become."""
        phase = instance.status.phase
        if pod is None:
            # The watch of pods may only be late.
            pod = await self._find(instance)
        if pod is None:
            await self._over(instance, "Failed", "PodNotExists", "the virt-launcher pod is gone")
        elif pod.status.phase in ENDED:
            await self._over(instance, pod.status.phase, "PodTerminating", pod.status.message)
        elif phase == "Running":
            await self._write(instance, phase, [self._migratable(instance)])
        elif pod.status.phase == "Running":
            if phase == "Scheduling":
                await self._write(instance, "Scheduled", node=pod.spec.node_name, pod=pod)
            else:
                await self._start(instance, pod)
        elif scheduled := find_condition(pod.status.conditions, "PodScheduled"):
            if scheduled.status == "False":
                await self._write(instance, phase, [scheduled])
            else:
                await self._write(instance, phase, dropped=("PodScheduled",))

    async def _find(self, instance: Instance) -> Pod | None:
        try:
            return await self._client.get(PODS, current_pod(instance), instance.metadata.namespace)
        except NotFoundError:
            return None

    async def _all_pods(self, instance: Instance) -> list[Pod]:
        """Those that it has left for another by migration included."""
        uid = instance.metadata.uid
        if known := self._pods.store.by("instance", uid):
            return known
        selector = f"{LABEL_CREATED_BY}={uid}"
        pages = self._client.list(PODS, instance.metadata.namespace, label_selector=selector)
        return [PODS.decode(item) async for page in pages for item in page.items]

    async def _start(self, instance: Instance, pod: Pod) -> None:
        """Have the pod's process open the devices; it may have done so before we were killed."""
        uid = pod.metadata.uid
        runtime = self._runtimes.get(pod.spec.node_name)
        workload = None if runtime is None else runtime.get(uid)
        if runtime is None or workload is None:
            return
        devices = desired(instance).domain.devices
        try:
            if not workload.opened:
                paths = device_paths(workload.environment.get(CONTAINER, {}), devices)
                runtime.open(uid, paths)
        except (LauncherError, OSError) as error:
            text = f"server error. command SyncVMI failed: {_words(error)!r}"
            self._recorder.record(INSTANCES.ref(instance), "SyncFailed", text, warning=True)
            await self._over(instance, "Failed", "GuestNotRunning", text)
            runtime.exit(uid, 1)
            return
        ready = Condition(type="Ready", status="True")
        said = [ready, self._migratable(instance)]
        dropped = ("PodScheduled", "Synchronized")
        await self._write(instance, "Running", said, dropped=dropped, more=_addresses(instance))
        text = "VirtualMachineInstance started."
        self._recorder.record(INSTANCES.ref(instance), "Started", text)

    async def _over(self, instance: Instance, phase: str, reason: str, message: str) -> None:
        """Only of the version that was looked at: the instance may be in another pod by now."""
        ended = _not_ready(reason, message or _GUEST_NOT_RUNNING)
        await self._write(instance, phase, [ended], dropped=("PodScheduled",), exact=True)

    async def _end(self, instance: Instance) -> None:
        """Delete the pods, then let the object go."""
        meta = instance.metadata
        pods = await self._all_pods(instance)
        for pod in pods:
            if not pod.metadata.deletion_timestamp:
                uid = pod.metadata.uid
                await self._client.delete(PODS, pod.metadata.name, meta.namespace, uid=uid)
        if pods:
            return
        if FINALIZER_INSTANCE not in meta.finalizers:
            return
        left = [name for name in meta.finalizers if name != FINALIZER_INSTANCE]
        body = {
            "metadata": {"resourceVersion": meta.resource_version, "finalizers": left or None},
        }
        await self._client.patch(INSTANCES, meta.name, body, meta.namespace)

    async def _write(
        self,
        instance: Instance,
        phase: str,
        said: Iterable[Condition] = (),
        *,
        dropped: Sequence[str] = (),
        node: str = "",
        pod: Pod | None = None,
        exact: bool = False,
        more: Mapping[str, Json] | None = None,
    ) -> None:
        """Write what differs. The kind has no status subresource."""
        now = timestamp(datetime.now(UTC))
        conditions = [one for one in instance.status.conditions if one.type not in dropped]
        for one in said:
            conditions = set_condition(conditions, one, now)
        status: dict[str, Json] = dict(more or {})
        if phase != instance.status.phase:
            status["phase"] = phase
        if conditions != list(instance.status.conditions):
            status["conditions"] = msgspec.to_builtins(conditions)
        metadata: dict[str, Json] = {"uid": instance.metadata.uid}
        if exact:
            metadata["resourceVersion"] = instance.metadata.resource_version
        if node and pod is not None:
            status |= {"nodeName": node, "activePods": {pod.metadata.uid: node}}
            metadata["labels"] = {LABEL_NODE: node}
        if FINALIZER_INSTANCE not in instance.metadata.finalizers:
            metadata["finalizers"] = [*instance.metadata.finalizers, FINALIZER_INSTANCE]
            metadata["resourceVersion"] = instance.metadata.resource_version
        if not status and not metadata.keys() & {"finalizers", "labels"}:
            return
        meta = instance.metadata
        body = {"metadata": metadata, "status": status}
        await self._client.patch(INSTANCES, meta.name, body, meta.namespace)

    def _migratable(self, instance: Instance) -> Condition:
        return migratable(instance, next(iter(self._installations.store), None))

    def _permitted(self) -> PermittedHostDevices | None:
        for installation in self._installations.store:
            return installation.spec.configuration.permitted_host_devices
        return None


def _addresses(instance: Instance) -> dict[str, Json]:
    """What the guest agent says of each network card; other addresses after every start."""
    cards = items(at(instance.spec, ("domain", "devices", "interfaces")))
    number = int(hashlib.sha256(instance.metadata.uid.encode()).hexdigest()[:4], 16)
    found: list[Json] = []
    for place, card in enumerate(cards):
        ipv4 = f"10.{52 + place}.{number >> 8}.{number & 255}"
        ipv6 = f"fd00:{place:x}::{number:x}"
        found.append(
            {
                "name": members(card).get("name", ""),
                "interfaceName": f"eth{place}",
                "ipAddress": ipv4,
                "ipAddresses": [ipv4, ipv6],
                "infoSource": "domain, guest-agent",
            }
        )
    return {"interfaces": found} if found else {}


def _not_ready(reason: str, message: str) -> Condition:
    return Condition(type="Ready", status="False", reason=reason, message=message)


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"internal error: cannot open {error.filename}: {error.strerror}"
    return str(error)
