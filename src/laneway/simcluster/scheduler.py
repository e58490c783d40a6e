"""Puts pods on nodes: by what they request, one after the other.

One pod is placed at a time, and what was placed counts before the watch tells of it, so two pods
never get the last device both. Nodes are compared as kube-scheduler does by default
(`simcluster.scores`). A pod that fits nowhere says why in Kubernetes' words, and is looked at again
whenever a node changes or a pod leaves one.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime

from laneway.api import Condition, find_condition, set_condition, timestamp
from laneway.core.machine_pools import affinity
from laneway.kube.client import Client
from laneway.kube.controller import run_workers
from laneway.kube.errors import ConflictError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.informer import Informer
from laneway.kube.pods import PODS, Pod
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import Key, key_of
from laneway.simcluster.objects import (
    ENDED,
    HOSTNAME,
    NODES,
    PLACED_PODS,
    Node,
    PlacedPod,
    amounts,
    is_ready,
    requested,
)
from laneway.simcluster.scores import scores

NAME = "default-scheduler"


class Scheduler:
    """The cluster's scheduler. Run `run` in a task."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recorder = EventRecorder(client, NAME)
        self._queue: WorkQueue[Key] = WorkQueue(cap=10.0)
        self._nodes = Informer(client, NODES)
        self._pods = Informer(client, PLACED_PODS, indexers={"node": _node_of, "uid": _uid_of})
        self._placed: dict[str, str] = {}
        """Pods that were bound and whose watch has not shown it yet: uid → node."""

    async def run(self) -> None:
        """Place pods until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._nodes, self._pods):
                tasks.create_task(informer.run())
            await self._nodes.synced.wait()
            await self._pods.synced.wait()
            self._pods.subscribe(self._pod_changed)
            self._nodes.subscribe(lambda _old, _new: self._ask_all())
            tasks.create_task(self._recorder.run())
            await run_workers(self._queue, self._place)

    def _pod_changed(self, old: PlacedPod | None, new: PlacedPod | None) -> None:
        if new is None or new.status.phase in ENDED:
            if old is not None:
                self._placed.pop(old.metadata.uid, None)
                self._ask_all()
        elif new.spec.node_name:
            self._placed.pop(new.metadata.uid, None)
        elif _waits(new):
            self._queue.add(key_of(new))

    def _ask_all(self) -> None:
        for pod in self._pods.store.by("node", ""):
            if _waits(pod):
                self._queue.add(key_of(pod))

    async def _place(self, key: Key) -> None:
        pod = self._pods.store.get(key.name, key.namespace)
        if pod is None or not _waits(pod) or pod.metadata.uid in self._placed:
            return
        on = {node.metadata.name: self._on(node.metadata.name) for node in self._nodes.store}
        taken = {name: sum(map(requested, pods), Counter()) for name, pods in on.items()}
        apart = {name for name, pods in on.items() if any(_keeps_from(pod, one) for one in pods)}
        chosen, why = choose(pod, list(self._nodes.store), taken, apart)
        if not chosen:
            await self._refuse(pod, why)
            return
        meta = pod.metadata
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": meta.name, "namespace": meta.namespace, "uid": meta.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": chosen},
        }
        self._placed[meta.uid] = chosen
        try:
            await self._client.act(PODS, meta.name, "binding", body, meta.namespace)
        except (ConflictError, NotFoundError):
            self._placed.pop(meta.uid, None)  # it is gone, or another scheduler has bound it
            return
        except BaseException:
            self._placed.pop(meta.uid, None)
            raise
        text = f"Successfully assigned {meta.namespace}/{meta.name} to {chosen}"
        self._recorder.record(PODS.ref(pod), "Scheduled", text)

    def _on(self, node: str) -> list[PlacedPod]:
        """The pods that have something of a node."""
        bound = [p for p in self._pods.store.by("node", node) if p.status.phase not in ENDED]
        return bound + [
            pod
            for uid, where in self._placed.items()
            if where == node
            for pod in self._pods.store.by("uid", uid)
            if not pod.spec.node_name
        ]

    async def _refuse(self, pod: Pod, why: str) -> None:
        condition = Condition(
            type="PodScheduled", status="False", reason="Unschedulable", message=why
        )
        known = find_condition(pod.status.conditions, "PodScheduled")
        if known is not None and (known.status, known.message) == ("False", why):
            return
        now = timestamp(datetime.now(UTC))
        meta = pod.metadata
        body = {
            "metadata": {"uid": meta.uid},
            "status": {"conditions": set_condition(pod.status.conditions, condition, now)},
        }
        try:
            await self._client.patch(PODS, meta.name, body, meta.namespace, subresource="status")
        except (ConflictError, NotFoundError):
            return
        self._recorder.record(PODS.ref(pod), "FailedScheduling", why, warning=True)


def choose(
    pod: PlacedPod,
    nodes: Sequence[Node],
    taken: Mapping[str, Mapping[str, int]],
    apart: Collection[str] = (),
) -> tuple[str, str]:
    """The best node among those where a pod fits, or why there is none.

    Among nodes with the same score, that with the fewest pods. `apart`: the nodes with a pod that
    it is not to be with.
    """
    reasons: Counter[str] = Counter()
    fitting: list[Node] = []
    for node in nodes:
        used = taken.get(node.metadata.name, {})
        if problems := _against(pod, node, used):
            reasons.update(problems)
        elif node.metadata.name in apart:
            reasons.update(["node(s) didn't match pod anti-affinity rules"])
        else:
            fitting.append(node)
    if fitting:
        found = scores(pod, fitting, taken)
        ranks = (
            (-score, taken.get(name, {}).get("pods", 0), name) for name, score in found.items()
        )
        return min(ranks)[2], ""
    if not nodes:
        return "", "no nodes available to schedule pods"
    words = sorted(f"{count} {reason}" for reason, count in reasons.items())
    return "", f"0/{len(nodes)} nodes are available: {', '.join(words)}."


def _against(pod: PlacedPod, node: Node, used: Mapping[str, int]) -> list[str]:
    """What keeps a pod from a node: the first obstacle, or everything there is too little of."""
    if node.spec.unschedulable:
        return ["node(s) were unschedulable"]
    if not is_ready(node):
        return ["node(s) had untolerated taint {node.kubernetes.io/not-ready: }"]
    labels = node.metadata.labels
    required = pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
    terms = None if required is None else required.node_selector_terms
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()) or (
        terms is not None and not affinity.nodes(terms, {node.metadata.name: labels})
    ):
        return ["node(s) didn't match Pod's node affinity/selector"]
    there = amounts(node.status.allocatable)
    short = [
        name
        for name, amount in requested(pod).items()
        if amount > 0 and amount > there[name] - used.get(name, 0)
    ]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in short]


def _keeps_from(pod: PlacedPod, other: PlacedPod) -> bool:
    """Whether a pod is not to be on the node of another."""
    terms = pod.spec.affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution
    return any(
        term.topology_key == HOSTNAME
        and pod.metadata.namespace == other.metadata.namespace
        and term.label_selector.match_labels.items() <= other.metadata.labels.items()
        for term in terms
    )


def _waits(pod: Pod) -> bool:
    return (
        not pod.spec.node_name
        and pod.spec.scheduler_name in ("", NAME)
        and not pod.metadata.deletion_timestamp
        and pod.status.phase not in ENDED
    )


def _node_of(pod: Pod) -> list[str]:
    return [pod.spec.node_name]


def _uid_of(pod: Pod) -> list[str]:
    return [pod.metadata.uid]
