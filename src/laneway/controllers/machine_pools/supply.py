"""The CPU and memory that are free on nodes, as the scheduler counts: without what pods request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from kubebasics import quantity
from laneway.api import ObjectMeta
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.machine_pools.pool import CPU, MEMORY
from laneway.kube.kubevirt import ANNOTATION_DOMAIN, LABEL_CREATED_BY
from laneway.kube.pods import Container, Pod, together
from laneway.kube.resource import Resource

_ENDED = ("Succeeded", "Failed")
_SCALES = {CPU: 1000, MEMORY: 1}


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The kubelet's word on its node."""

    allocatable: Mapping[str, str | int] = {}


class SizedNode(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A node, as far as its size goes."""

    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()


NODES = Resource("", "v1", "nodes", False, SizedNode, "Node")


def free(nodes: Iterable[SizedNode], pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """Thousandths of a processor and bytes, by node; below 0 where pods request more."""
    taken: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in _ENDED:
            taken.setdefault(pod.spec.node_name, Counter()).update(_requested(pod))
    return {
        node.metadata.name: {
            name: _amount(node.status.allocatable.get(name, 0), scale)
            - taken.get(node.metadata.name, Counter())[name]
            for name, scale in _SCALES.items()
        }
        for node in nodes
    }


def of_vms(pods: Iterable[Pod]) -> dict[Consumer, dict[str, int]]:
    """The same that the pods of VMs request, by VM."""
    found = {}
    for pod in pods:
        meta = pod.metadata
        name = meta.annotations.get(ANNOTATION_DOMAIN, "")
        if name and LABEL_CREATED_BY in meta.labels and pod.status.phase not in _ENDED:
            found[Consumer(ConsumerKind.VM, meta.namespace, name)] = dict(_requested(pod))
    return found


def _requested(pod: Pod) -> Counter[str]:
    return together(
        map(_of_container, pod.spec.containers),
        ((_of_container(one), one.restart_policy == "Always") for one in pod.spec.init_containers),
    )


def _of_container(container: Container) -> Counter[str]:
    """A limit without a request is one."""
    given = {**container.resources.limits, **container.resources.requests}
    return Counter({name: _amount(given.get(name, 0), scale) for name, scale in _SCALES.items()})


def _amount(text: str | float, scale: int) -> int:
    """A quantity in a unit; 0 for what is none."""
    try:
        return quantity.value(str(text)) * scale // quantity.NANO
    except ValueError:
        return 0
