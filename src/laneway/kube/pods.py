"""Pods, as far as Laneway reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from laneway.api import Condition, ObjectMeta, find_condition
from laneway.kube.resource import Resource


class Resources(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a container requests. Of extended resources the limit is the request."""

    limits: Mapping[str, str | int | float] = {}
    requests: Mapping[str, str | int | float] = {}


class SecurityContext(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a container may do to its node."""

    privileged: bool = False


class Container(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a pod is to run."""

    name: str
    resources: Resources = Resources()
    readiness_probe: Mapping[str, Any] | None = None
    security_context: SecurityContext = SecurityContext()
    restart_policy: str = ""
    """Of an init container: `Always` if it runs alongside the others."""


class ContainerStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What became of a container."""

    name: str
    container_id: str = msgspec.field(name="containerID", default="")
    """Another one after every restart."""


class PodSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The desired state."""

    containers: Sequence[Container] = ()
    init_containers: Sequence[Container] = ()
    node_name: str = ""
    """Empty until it is scheduled."""
    node_selector: Mapping[str, str] = {}
    scheduler_name: str = ""
    restart_policy: str = ""


class PodStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The kubelet's word on it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: Sequence[Condition] = ()
    container_statuses: Sequence[ContainerStatus] = ()


class Pod(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the pods of a workload are made from."""

    metadata: ObjectMeta = ObjectMeta()


class DaemonSetSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The desired state."""

    template: PodTemplate = PodTemplate()


class DaemonSetStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Its controller's word on it."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    """How many pods there should be."""


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Makes a pod on each node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


PODS = Resource("", "v1", "pods", True, Pod)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", True, DaemonSet, "DaemonSet")


def is_ready(pod: Pod) -> bool:
    """Whether a pod can be worked with: Ready, and not on its way out."""
    ready = find_condition(pod.status.conditions, "Ready")
    return ready is not None and ready.status == "True" and not pod.metadata.deletion_timestamp


def together(
    containers: Iterable[Counter[str]], first: Iterable[tuple[Counter[str], bool]]
) -> Counter[str]:
    """What a pod requests, as the scheduler counts it.

    What runs at the same time counts together, and what runs before by itself: of init containers,
    in their order, it counts whether they run on (`restartPolicy: Always`).
    """
    most: Counter[str] = Counter()
    alongside: Counter[str] = Counter()
    for asked, stays in first:
        if stays:
            alongside += asked
            most |= alongside
        else:
            most |= alongside + asked
    return most | sum(containers, alongside)
