"""The kubelet of a simulated node, as the API server sees it.

It says what the node has, admits the pods that are bound to it, starts them, and says what became
of them. A pod that is deleted ends at once, and its object goes when nothing of it runs any more.

What it does follows from three things that are looked at again for every pod: the object, what the
runtime runs, and what the device manager (`sim.kubelet`) gave. So one that was killed goes on where
it stopped: pods that run stay as they are and keep their devices, a pod that was given devices but
not started is started, and what is left of pods that are no more is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec

from laneway.api import Condition, set_condition, timestamp
from laneway.core.gpu.sample import COMPONENT, LABEL_COMPONENT
from laneway.core.raw import Json, JsonObject
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import AlreadyExistsError, ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.pods import PODS, Pod
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.pods import AdmissionError, KubeletDiedError, PodRequest
from laneway.simcluster.objects import ENDED, NODES, Node, devices
from laneway.simcluster.runtime import Runtime, Workload
from laneway.simcluster.vendor_plugins import VendorPlugins

log = logging.getLogger(__name__)

VERSION = "v1.34.2"
"""The release of Kubernetes whose behaviour is simulated."""

_OWN = {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti"}
_WORKERS = 4
"""A plugin that does not answer holds up its pod, and not every other."""
_STATUS = Key("", "")
"""In the queue: the node itself."""


def _now() -> str:
    return timestamp(datetime.now(UTC))


class NodeKubelet:
    """The kubelet of one node. Run `run` in a task; `ready` is set once it takes pods."""

    def __init__(self, name: str, client: Client, kubelet: Kubelet, runtime: Runtime) -> None:
        self.name = name
        self.runtime = runtime
        self.ready = asyncio.Event()
        self._client = client
        self._kubelet = kubelet
        self._queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._pods = Informer(
            client,
            PODS,
            field_selector=f"spec.nodeName={name}",
            indexers={"uid": lambda pod: [pod.metadata.uid]},
        )
        self._nodes = Informer(client, NODES, field_selector=f"metadata.name={name}")
        self._vendors = VendorPlugins(kubelet.folder, runtime.host)

    async def run(self) -> None:
        """Be the node's kubelet until cancelled; what runs goes on."""
        self._kubelet.subscribe(lambda: self._queue.add(_STATUS))
        self._pods.subscribe(self._changed)
        self._nodes.subscribe(lambda _old, _new: self._queue.add(_STATUS))
        self._nodes.follow(lambda node: self._vendors.see(node.metadata.labels))
        self.runtime.subscribe(self._exited)
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in (self._pods, self._nodes):
                    tasks.create_task(informer.run())
                    await informer.synced.wait()
                await self._kubelet.start()
                await self._take_over()
                self._queue.add(_STATUS)
                tasks.create_task(self._vendors.run())
                tasks.create_task(run_workers(self._queue, self._reconcile, _WORKERS))
                self.ready.set()
        finally:
            self.runtime.unsubscribe(self._exited)
            await self._kubelet.stop()

    async def _take_over(self) -> None:
        """Count the devices of what runs, before anybody new can get them."""
        for uid in {*self.runtime.uids, *self._kubelet.admitted}:
            pods = self._pods.store.by("uid", uid)
            if not pods:
                self._end(uid)
                continue
            if uid not in self.runtime:
                continue  # given devices, and not started yet
            try:
                await self._kubelet.admit(_request(pods[0], running=True))
            except AdmissionError as error:
                log.warning("pod %s keeps what it has: %s", pods[0].metadata.name, error)

    def _changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))
        elif old is not None:
            self._end(old.metadata.uid)

    def _exited(self, uid: str) -> None:
        for pod in self._pods.store.by("uid", uid):
            self._queue.add(key_of(pod))

    def _end(self, uid: str) -> None:
        """Nothing of a pod is left, first what it runs and then what it was given."""
        self.runtime.end(uid)
        self._kubelet.remove(uid)

    async def _reconcile(self, key: Key) -> Retry | None:
        if key == _STATUS:
            await self._publish()
            return None
        pod = self._pods.store.get(key.name, key.namespace)
        if pod is None:
            return None
        uid = pod.metadata.uid
        workload = self.runtime.get(uid)
        try:
            if pod.metadata.deletion_timestamp:
                await self._delete(pod)
            elif pod.status.phase in ENDED:
                self._end(uid)
            elif workload is None and _lost(pod):
                await self._finish(pod, "Failed", 137, "Error", "The node was rebooted.")
            elif workload is None:
                await self._admit(pod)
            elif workload.exit_code is None:
                await self._say_running(pod)
            else:
                await self._finish(pod, *_ending(workload))
        except NotFoundError:
            self._end(uid)
        except KubeletDiedError:
            return Retry(0.1)
        return None

    # -------------------------------------------------------------------------------- pods

    async def _admit(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        try:
            grants = await self._kubelet.admit(_request(pod))
        except AdmissionError as error:
            body = {
                "phase": "Failed",
                "reason": error.reason,
                "message": f"Pod was rejected: {error}",
                "startTime": _now(),
            }
            await self._write(pod, body)
            return
        if not self._pods.store.by("uid", uid):
            self._end(uid)  # deleted for good meanwhile
            return
        self.runtime.start(uid, {name: grant.envs for name, grant in grants.items()})
        await self._say_running(pod)
        if pod.metadata.labels.get(LABEL_COMPONENT) == COMPONENT:
            self.runtime.exit(uid)  # Nothing really runs, so it ends at once and well.

    async def _say_running(self, pod: Pod) -> None:
        if pod.status.phase == "Running":
            return
        now = _now()
        statuses = [
            _container(pod, name, ready=True, state={"running": {"startedAt": now}})
            for name in _names(pod)
        ]
        body: JsonObject = {
            "phase": "Running",
            "startTime": now,
            "conditions": _conditions(pod, "True", ""),
            "containerStatuses": statuses,
        }
        await self._write(pod, body)

    async def _finish(self, pod: Pod, phase: str, code: int, reason: str, message: str) -> None:
        """Say how the containers ended, then free what they had."""
        now = _now()
        ended: JsonObject = {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "finishedAt": now,
        }
        statuses = [
            _container(pod, name, ready=False, state={"terminated": ended}) for name in _names(pod)
        ]
        body: JsonObject = {
            "phase": phase,
            "conditions": _conditions(
                pod, "False", "PodCompleted" if phase == "Succeeded" else "PodFailed"
            ),
            "containerStatuses": statuses,
        }
        await self._write(pod, body)
        self._end(pod.metadata.uid)

    async def _delete(self, pod: Pod) -> None:
        """End a pod, and let its object go."""
        meta = pod.metadata
        self._end(meta.uid)
        with contextlib.suppress(ConflictError, NotFoundError):  # gone, its name perhaps reused
            await self._client.delete(
                PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0
            )

    async def _write(self, pod: Pod, status: JsonObject) -> None:
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        meta = pod.metadata
        with contextlib.suppress(ConflictError):  # another pod has its name by now
            await self._client.patch(PODS, meta.name, body, meta.namespace, subresource="status")

    # -------------------------------------------------------------------------------- node

    async def _publish(self) -> None:
        node = self._nodes.store.get(self.name)
        if node is None:
            await register(self._client, self.name)
            return
        status: dict[str, Json] = {}
        for field, devices_ in (
            ("capacity", self._kubelet.capacity),
            ("allocatable", self._kubelet.allocatable),
        ):
            before = {name: str(amount) for name, amount in getattr(node.status, field).items()}
            wanted = _OWN | {name: str(count) for name, count in devices_.items()}
            gone = dict.fromkeys(name for name in before if "/" in name and name not in wanted)
            if changed := {k: v for k, v in wanted.items() if before.get(k) != v} | gone:
                status[field] = changed
        conditions = set_condition(node.status.conditions, _READY, _now())
        if conditions != list(node.status.conditions):
            status["conditions"] = msgspec.to_builtins(conditions)
            status["nodeInfo"] = {"kubeletVersion": VERSION}
        if status:
            log.debug("node %s: %s", self.name, status)
            await self._client.patch(NODES, self.name, {"status": status}, subresource="status")


_READY = Condition(
    type="Ready",
    status="True",
    reason="KubeletReady",
    message="kubelet is posting ready status",
)


_SILENT = Condition(
    type="Ready",
    status="Unknown",
    reason="NodeStatusUnknown",
    message="Kubelet stopped posting node status.",
)


async def register(client: Client, name: str) -> None:
    """Make a node's object, where there is none."""
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}
    with contextlib.suppress(AlreadyExistsError):
        await client.create(NODES, {"metadata": {"name": name, "labels": labels}})


async def mark_silent(client: Client, running: Collection[str]) -> None:
    """Say of every other node that it is silent, so that it gets no pods.

    In a real cluster the node controller says so once the kubelet has been silent for a while.
    """
    async for page in client.list(NODES):
        for item in page.items:
            node: Node = NODES.decode(item)
            ready = [one for one in node.status.conditions if one.type == "Ready"]
            if node.metadata.name in running or not ready or ready[0].status == "Unknown":
                continue
            await say_silent(client, node.metadata.name)


async def say_silent(client: Client, name: str) -> None:
    """Say of a node that its kubelet is silent."""
    node = await client.get(NODES, name)
    body = {"status": {"conditions": set_condition(node.status.conditions, _SILENT, _now())}}
    await client.patch(NODES, name, body, subresource="status")


def _request(pod: Pod, *, running: bool = False) -> PodRequest:
    containers = {one.name: devices(one) for one in pod.spec.containers}
    meta = pod.metadata
    return PodRequest(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        containers=containers,
        running=running,
    )


def _names(pod: Pod) -> list[str]:
    return [one.name for one in pod.spec.containers]


def _lost(pod: Pod) -> bool:
    """Whether a pod without containers ran here before the node was booted, and may not again."""
    return pod.status.phase == "Running" and pod.spec.restart_policy != "Always"


def _ending(workload: Workload) -> tuple[str, int, str, str]:
    code = workload.exit_code or 0
    return ("Failed", code, "Error", "") if code else ("Succeeded", 0, "Completed", "")


def _conditions(pod: Pod, ready: str, reason: str) -> Json:
    conditions: Sequence[Condition] = pod.status.conditions
    for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"):
        status = ready if "Ready" in kind else "True"
        one = Condition(type=kind, status="True" if status == "True" else "False", reason=reason)
        conditions = set_condition(conditions, one, _now())
    found: Json = msgspec.to_builtins(conditions)
    return found


def _container(pod: Pod, name: str, *, ready: bool, state: JsonObject) -> JsonObject:
    return {
        "name": name,
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "image": name,
        "imageID": "",
        "containerID": f"simulated://{pod.metadata.uid}/{name}",
    }
