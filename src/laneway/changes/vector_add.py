"""Runs a vendor's sample as a pod of a node, to see whether containers can use its GPUs.

The pod is removed whatever becomes of it, also when the task is cancelled. Should even that fail,
the pod has a deadline, after which it holds no GPU any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import secrets
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from kubebasics import quantity
from laneway.api import Condition, ObjectMeta, find_condition
from laneway.changes.errors import ChangeError
from laneway.changes.listening import SILENT, Listener
from laneway.changes.watching import states
from laneway.core.doctor.vector_add import Ran
from laneway.core.gpu.sample import (
    COMPONENT,
    LABEL_COMPONENT,
    LABEL_HOST,
    pod_spec,
    resource_among,
    with_image,
)
from laneway.core.gpu.vendors import Vendor, vendor_of_resource
from laneway.core.node_labels import CONTAINERS
from laneway.core.phrases import line
from laneway.kube.client import Client
from laneway.kube.errors import (
    ApiError,
    KubeError,
    NotFoundError,
    UnreachableError,
    is_outage,
)
from laneway.kube.resource import Key, Resource

NAME = "laneway-vector-add"
_LOG_LINES = 20
_REMOVAL_SECONDS = 10.0


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A part of an object."""


class _State(_Part, frozen=True, kw_only=True):
    waiting: Mapping[str, Any] = {}
    terminated: Mapping[str, Any] = {}


class _Container(_Part, frozen=True, kw_only=True):
    state: _State = _State()


class _PodStatus(_Part, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[_Container, ...] = ()


class _Pod(_Part, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _PodStatus = _PodStatus()


class _NodeStatus(_Part, frozen=True, kw_only=True):
    allocatable: Mapping[str, str | int] = {}


class _Node(_Part, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    status: _NodeStatus = _NodeStatus()


_PODS = Resource("", "v1", "pods", True, _Pod)
_NODES = Resource("", "v1", "nodes", False, _Node)


class Wanted(NamedTuple):
    """What is to run, and where."""

    node: str
    namespace: str
    image: str = ""
    """Empty: the vendor's own sample."""
    seconds: float = 600.0


async def run(client: Client, wanted: Wanted, listener: Listener = SILENT) -> Ran:
    """Run it to its end. Raises ChangeError where there is no such node."""
    try:
        node = await client.get(_NODES, wanted.node)
    except NotFoundError:
        raise ChangeError(
            f"the cluster has no node {wanted.node}. To list its nodes: kubectl get nodes"
        ) from None
    labels = node.metadata.labels
    resource = resource_among(_counts(node.status.allocatable))
    if not resource:
        served = any(labels.get(one) == "true" for one in CONTAINERS.values())
        return Ran("", labelled=served)
    sample = with_image(vendor_of_resource(resource) or Vendor.NVIDIA, wanted.image)
    spec = pod_spec(sample, resource, labels.get(LABEL_HOST, wanted.node))
    spec["activeDeadlineSeconds"] = math.ceil(wanted.seconds + _REMOVAL_SECONDS)
    pod = Key(wanted.namespace, f"{NAME}-{secrets.token_hex(4)}")
    metadata = {
        "name": pod.name,
        "labels": {"app.kubernetes.io/managed-by": "laneway", LABEL_COMPONENT: COMPONENT},
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    there = True  # It may be, also where no answer comes, or only that of a proxy.
    try:
        try:
            await client.create(_PODS, body, pod.namespace)
        except ApiError as error:
            there = is_outage(error)
            raise
        why = await _ended(client, pod, wanted.seconds, listener)
        log, unread = await _log(client, pod)
        return Ran(resource, sample.image, why, log, unread)
    finally:
        if there:
            await _remove(client, pod, listener)


def _counts(allocatable: Mapping[str, str | int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, amount in allocatable.items():
        with contextlib.suppress(ValueError):
            found[name] = quantity.value(str(amount)) // quantity.NANO
    return found


async def _ended(client: Client, pod: Key, seconds: float, listener: Listener) -> str:
    """Wait for the end of a pod: why it was none as it should be; empty: it was."""
    last = "it was not started"

    def away(error: UnreachableError) -> None:
        listener.progress(f"{error}; asking again")

    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            found = states(client, _PODS, away, pod.name, pod.namespace)
            async with contextlib.aclosing(found):
                async for raw in found:
                    if raw is None:
                        return "its pod was deleted"
                    now = _PODS.decode(raw).status
                    if now.phase == "Succeeded":
                        return ""
                    last = _words(now)
                    if now.phase == "Failed":
                        return last
                    listener.progress(f"pod {pod}: {last}")
    return f"it was not over after {seconds:.0f} s: {last}"


def _words(status: _PodStatus) -> str:
    """How far a pod is."""
    for one in status.container_statuses:
        if told := one.state.terminated:
            return _told("ended", told) + f" (exit status {told.get('exitCode', 'unknown')})"
        if told := one.state.waiting:
            return _told("waits", told)
    placed = find_condition(status.conditions, "PodScheduled")
    if placed is not None and placed.status == "False":
        return f"waits for a place: {line(placed.message)}"
    if status.message or status.reason:
        return line(f"{status.phase or 'Pending'}: {status.message or status.reason}")
    return {"Running": "runs"}.get(status.phase, "waits for the node to start it")


def _told(what: str, told: Mapping[str, Any]) -> str:
    parts = [str(told[key]) for key in ("reason", "message") if told.get(key)]
    return line(f"{what}: {': '.join(parts)}" if parts else what)


async def _log(client: Client, pod: Key) -> tuple[str, str]:
    """The end of a pod's log, or why there is none."""
    path = _PODS.path(pod.namespace, pod.name, "log")
    try:
        raw = await client.raw(path, {"tailLines": str(_LOG_LINES)})
    except KubeError as error:
        return "", line(str(error))
    return raw.decode(errors="replace"), ""


async def _remove(client: Client, pod: Key, listener: Listener) -> None:
    """Its name is of this run alone, so no other pod can have it."""
    try:
        async with asyncio.timeout(_REMOVAL_SECONDS):
            await client.delete(_PODS, pod.name, pod.namespace)
    except NotFoundError:
        return
    except (KubeError, TimeoutError) as error:
        listener.warning(
            f"the pod was not removed: {error or 'no answer in time'}. Remove it: kubectl delete "
            f"pod {pod.name} -n {pod.namespace}"
        )
