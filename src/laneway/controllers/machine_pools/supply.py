"""The CPU and memory that are free on nodes, as the scheduler counts: without what pods request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kubebasics import quantity
from laneway.api import CoreNode, ObjectMeta
from laneway.api.nodes import CoreNodeStatus
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.machine_pools.pool import CPU, MEMORY
from laneway.kube.kubevirt import ANNOTATION_DOMAIN, LABEL_CREATED_BY
from laneway.kube.pods import Container, Pod, together
from laneway.kube.resource import Resource

_ENDED = ("Succeeded", "Failed")
_SCALES = {CPU: 1000, MEMORY: 1}


class SizedStatus(CoreNodeStatus, frozen=True, kw_only=True, rename="camel", gc=False):
    """The kubelet's word on its node."""

    allocatable: Mapping[str, str | int] = {}


class SizedNode(CoreNode, frozen=True, kw_only=True, rename="camel", gc=False):
    """A node with its size."""

    status: SizedStatus = SizedStatus()


NODES = Resource("", "v1", "nodes", False, SizedNode, "Node")

Amounts = Mapping[str, int]
"""Thousandths of a processor, and bytes."""


def free(nodes: Iterable[SizedNode], pods: Iterable[Pod]) -> dict[str, dict[str, int]]:
    """What is free by node; below 0 where pods request more."""
    taken: dict[str, Counter[str]] = {}
    for pod in pods:
        if pod.spec.node_name and not has_ended(pod):
            taken.setdefault(pod.spec.node_name, Counter()).update(requested(pod))
    return without(nodes, taken)


def without(nodes: Iterable[SizedNode], taken: Mapping[str, Amounts]) -> dict[str, dict[str, int]]:
    """The same where it is known what the pods of each node request together."""
    return {
        node.metadata.name: {
            name: _amount(node.status.allocatable.get(name, 0), scale)
            - taken.get(node.metadata.name, {}).get(name, 0)
            for name, scale in _SCALES.items()
        }
        for node in nodes
    }


def has_ended(pod: Pod) -> bool:
    """Whether a pod requests nothing any more."""
    return pod.status.phase in _ENDED


def of_vms(pods: Iterable[Pod]) -> dict[Consumer, dict[str, int]]:
    """The same that the pods of VMs request, by VM."""
    found = {}
    for pod in pods:
        vm = vm_of(pod.metadata)
        if vm is not None and not has_ended(pod):
            found[vm] = dict(requested(pod))
    return found


def vm_of(meta: ObjectMeta) -> Consumer | None:
    """The VM of a pod with these metadata, if it is one of KubeVirt's."""
    name = meta.annotations.get(ANNOTATION_DOMAIN, "")
    if not name or LABEL_CREATED_BY not in meta.labels:
        return None
    return Consumer(ConsumerKind.VM, meta.namespace, name)


def requested(pod: Pod) -> Counter[str]:
    """What a pod requests of its node."""
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
