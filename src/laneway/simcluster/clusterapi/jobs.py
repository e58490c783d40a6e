"""Jobs, and the pods on the nodes of Cluster API's machines.

Nothing really runs there: the pod of a Job ends at once and well, any other runs until it is
deleted. What a pod requests is taken of its node as long as it has not ended, so a Job that asks
for more GPUs than its node has is never done.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec

from laneway.api import ObjectMeta, timestamp
from laneway.core.raw import Json, JsonObject, members
from laneway.kube.client import Client
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.pods import PODS, Pod
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, Resource, key_of
from laneway.simcluster.clusterapi.guests import is_guest
from laneway.simcluster.clusterapi.objects import controlled, owner
from laneway.simcluster.clusterapi.writing import create
from laneway.simcluster.objects import ENDED, Node


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class JobSpec(_Part, frozen=True, kw_only=True):
    """What is to be done, and how often."""

    completions: int | None = None
    backoff_limit: int | None = None
    suspend: bool = False
    template: JsonObject = {}


class JobStatus(_Part, frozen=True, kw_only=True):
    """How often it was."""

    start_time: str = ""
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: Sequence[JsonObject] = ()


class Job(_Part, frozen=True, kw_only=True):
    """Work that ends."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


JOBS = Resource("batch", "v1", "jobs", True, Job)


class JobController:
    """Reconciles Jobs: one pod at a time. To be run by one worker."""

    def __init__(self, client: Client, jobs: Informer[Job], pods: Informer[Pod]) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._jobs = jobs
        jobs.subscribe(lambda _old, new: self.queue.add(key_of(new)) if new else None)
        pods.follow(self._pod_changed)

    def _pod_changed(self, pod: Pod) -> None:
        for ref in pod.metadata.owner_references:
            if ref.kind == "Job":
                self.queue.add(Key(pod.metadata.namespace, ref.name))

    async def reconcile(self, key: Key) -> None:
        """Have a pod for a Job that is not done, and tell how it stands."""
        job = self._jobs.store.get(key.name, key.namespace)
        if job is None or job.metadata.deletion_timestamp or job.spec.suspend or _ended(job):
            return
        pages = self._client.list(PODS, key.namespace, label_selector=f"job-name={key.name}")
        found = [PODS.decode(item) async for page in pages for item in page.items]
        pods = controlled(found, job.metadata.uid)
        counts = {
            phase: sum(pod.status.phase == phase for pod in pods)
            for phase in ("Succeeded", "Failed")
        }
        active = sum(pod.status.phase not in ENDED for pod in pods)
        limit = 6 if job.spec.backoff_limit is None else job.spec.backoff_limit
        done = counts["Succeeded"] >= (job.spec.completions or 1)
        failed = not done and counts["Failed"] > limit
        if not (done or failed or active):
            await create(self._client, PODS, _pod(job), key.namespace)
            active = 1
        await self._tell(job, active, counts, "Complete" if done else "Failed" if failed else "")

    async def _tell(self, job: Job, active: int, counts: Mapping[str, int], ending: str) -> None:
        now = timestamp(datetime.now(UTC))
        body: dict[str, Json] = {
            "active": active,
            "succeeded": counts["Succeeded"],
            "failed": counts["Failed"],
        }
        if not job.status.start_time:
            body["startTime"] = now
        if ending:
            reason = "CompletionsReached" if ending == "Complete" else "BackoffLimitExceeded"
            first = "SuccessCriteriaMet" if ending == "Complete" else "FailureTarget"
            body["conditions"] = [
                {
                    "type": kind,
                    "status": "True",
                    "reason": reason,
                    "lastProbeTime": now,
                    "lastTransitionTime": now,
                }
                for kind in (first, ending)
            ]
            body |= {"completionTime": now} if ending == "Complete" else {}
        meta = job.metadata
        before = msgspec.to_builtins(job.status)
        if all(before.get(name) == value for name, value in body.items()):
            return
        patch = {"metadata": {"uid": meta.uid}, "status": body}
        with contextlib.suppress(ConflictError, NotFoundError):
            await self._client.patch(JOBS, meta.name, patch, meta.namespace, subresource="status")


class GuestPods:
    """Reconciles the pods of nodes that run in machines, and of those that ran in one."""

    def __init__(self, client: Client, nodes: Informer[Node], pods: Informer[Pod]) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._client = client
        self._nodes = nodes
        self._pods = pods
        self._gone: set[str] = set()
        pods.subscribe(lambda _old, new: self.queue.add(key_of(new)) if new else None)
        nodes.subscribe(self._node_changed)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        node = new or old
        if node is None or not is_guest(node):
            return
        name = node.metadata.name
        if new is None:
            self._gone.add(name)
        else:
            self._gone.discard(name)
        for pod in self._pods.store:
            if pod.spec.node_name == name:
                self.queue.add(key_of(pod))

    async def reconcile(self, key: Key) -> None:
        """Run a pod, or end it."""
        pod = self._pods.store.get(key.name, key.namespace)
        if pod is None or not pod.spec.node_name:
            return
        node = self._nodes.store.get(pod.spec.node_name)
        if node is None and pod.spec.node_name not in self._gone:
            return
        if node is not None and not is_guest(node):
            return
        meta = pod.metadata
        with contextlib.suppress(ConflictError, NotFoundError):
            if node is None or meta.deletion_timestamp:
                await self._client.delete(
                    PODS, meta.name, meta.namespace, uid=meta.uid, grace_seconds=0
                )
            elif pod.status.phase in ("", "Pending"):
                patch = {"metadata": {"uid": meta.uid}, "status": _ran(pod)}
                await self._client.patch(
                    PODS, meta.name, patch, meta.namespace, subresource="status"
                )


def _ended(job: Job) -> bool:
    return any(
        one.get("type") in ("Complete", "Failed") and one.get("status") == "True"
        for one in job.status.conditions
    )


def _pod(job: Job) -> JsonObject:
    template = job.spec.template
    meta, about = job.metadata, members(template.get("metadata"))
    labels = {"job-name": meta.name, "batch.kubernetes.io/job-name": meta.name}
    return {
        "metadata": {
            "generateName": f"{meta.name}-",
            "labels": {**members(about.get("labels")), **labels},
            "annotations": about.get("annotations") or {},
            "ownerReferences": [owner(JOBS, meta)],
        },
        "spec": template.get("spec") or {},
    }


def _ran(pod: Pod) -> JsonObject:
    """The status of a pod that was started; of one that is a Job's, that has ended as well."""
    now = timestamp(datetime.now(UTC))
    ends = any(ref.kind == "Job" for ref in pod.metadata.owner_references)
    running: JsonObject = {"running": {"startedAt": now}}
    ended: JsonObject = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": now}}
    ready = "False" if ends else "True"
    return {
        "phase": "Succeeded" if ends else "Running",
        "startTime": now,
        "conditions": [
            *(
                {"type": one.type, "status": one.status, "reason": one.reason}
                for one in pod.status.conditions
                if one.type == "PodScheduled"
            ),
            {"type": "Ready", "status": ready, "reason": "PodCompleted" if ends else ""},
        ],
        "containerStatuses": [
            {
                "name": one.name,
                "ready": not ends,
                "restartCount": 0,
                "image": one.name,
                "imageID": "",
                "state": ended if ends else running,
            }
            for one in pod.spec.containers
        ],
    }
