"""Nodes as the scheduler and the kubelet see them, and what pods ask of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from kubebasics import quantity
from laneway.api import Condition, ObjectMeta, find_condition
from laneway.core.machine_pools.affinity import Term, Terms
from laneway.kube.pods import Container, Pod, PodSpec, together
from laneway.kube.resource import Resource

ENDED = frozenset({"Succeeded", "Failed"})
"""Phases of a pod that has nothing any more."""


class NodeSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The desired state."""

    unschedulable: bool = False
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The kubelet's word on its node."""

    capacity: Mapping[str, str | int] = {}
    allocatable: Mapping[str, str | int] = {}
    conditions: Sequence[Condition] = ()


class Node(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node of the cluster."""

    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


NODES = Resource("", "v1", "nodes", False, Node)


class LabelSelector(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Which pods a term is about; those of its own namespace."""

    match_labels: Mapping[str, str] = {}


class AffinityTerm(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A kind of place, and pods that are in it."""

    label_selector: LabelSelector = LabelSelector()
    topology_key: str = ""


class AntiAffinity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Pods that another one is not to be with."""

    required_during_scheduling_ignored_during_execution: Sequence[AffinityTerm] = ()


class Preferred(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes where a pod is rather to be."""

    weight: int = 0
    preference: Term = Term()


class NodeAffinity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Nodes where a pod may be, and is rather to be."""

    required_during_scheduling_ignored_during_execution: Terms | None = None
    preferred_during_scheduling_ignored_during_execution: Sequence[Preferred] = ()


class Affinity(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a pod may be, seen from nodes and from other pods."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_anti_affinity: AntiAffinity = AntiAffinity()


class PlacedSpec(PodSpec, frozen=True, kw_only=True):
    """The desired state, as the scheduler sees it."""

    affinity: Affinity = Affinity()


class PlacedPod(Pod, frozen=True, kw_only=True):
    """A pod, as the scheduler sees it."""

    spec: PlacedSpec = PlacedSpec()


PLACED_PODS = Resource("", "v1", "pods", True, PlacedPod)
HOSTNAME = "kubernetes.io/hostname"
"""On a node: its name. As the kind of a place: the node."""


def is_ready(node: Node) -> bool:
    """Whether its kubelet takes pods."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready is not None and ready.status == "True"


def amounts(texts: Mapping[str, str | int | float]) -> Counter[str]:
    """Quantities in billionths; one that is none counts as nothing."""
    found: Counter[str] = Counter()
    for name, text in texts.items():
        try:
            found[name] = quantity.value(str(text))
        except ValueError:
            continue
    return found


def requests(container: Container) -> Counter[str]:
    """What a container requests; a limit without a request is one."""
    return amounts({**container.resources.limits, **container.resources.requests})


def requested(pod: Pod) -> Counter[str]:
    """What a pod takes of its node, itself included."""
    spec = pod.spec
    total = together(
        map(requests, spec.containers),
        ((requests(one), one.restart_policy == "Always") for one in spec.init_containers),
    )
    return total + Counter({"pods": quantity.NANO})


def devices(container: Container) -> dict[str, int]:
    """The extended resources of a container, which its kubelet allocates one by one."""
    return {
        name: amount // quantity.NANO
        for name, amount in requests(container).items()
        if "/" in name and amount > 0
    }
