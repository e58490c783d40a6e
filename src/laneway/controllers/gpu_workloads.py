"""Whom the GPUs of a node serve, and the refusal of what would take one from containers.

Admission says the same before an object is stored. The agent asks again before it writes to
hardware, because the webhook may have been away, and a claim may be older than the label. What has
been done for virtual machines already stays theirs until it is undone: only plans are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from laneway.api import CoreNode, PCIDevice, SRIOVGPUDevice
from laneway.controllers.ledger.objects import Pod as LightPod
from laneway.core import names
from laneway.core.gpu.vendors import Vendor, gpu_of, vendor_of_resource
from laneway.core.gpu.workload import Assigned, Said, assigned, label_of
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.core.refusals import GpusForContainers
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import LABEL_CREATED_BY
from laneway.kube.pods import Pod
from laneway.kube.resource import key_of

_ENDED = ("Succeeded", "Failed")


class GpuWorkloads:
    """Reads the caches of one node's agent."""

    def __init__(
        self,
        node: str,
        *,
        nodes: Informer[CoreNode],
        gpus: Informer[SRIOVGPUDevice],
        pcis: Informer[PCIDevice],
        pods: Informer[Pod],
    ) -> None:
        self._node = node
        self._nodes = nodes
        self._gpus = gpus
        self._pcis = pcis
        self._pods = pods

    def subscribe(self, changed: Callable[[], None]) -> None:
        """Have a call whenever another object or label says whom a GPU serves."""

        def told(before: Any, after: Any) -> None:
            if _says(before) != _says(after):
                changed()

        self._nodes.subscribe(told)
        self._gpus.subscribe(told)
        self._pcis.subscribe(told)

    def of(self, card: PciAddress) -> Assigned:
        """Whom the GPU at an address serves."""
        name = names.pci_object_name(self._node, card)
        objects = (self._gpus.store.get(name), self._pcis.store.get(name))
        node = self._nodes.store.get(self._node)
        return assigned(
            (Said(one.kind, name, one.spec.workload) for one in objects if one is not None),
            self._node,
            node.metadata.labels if node is not None else {},
        )

    def for_containers(self, card: PciAddress) -> bool:
        """Whether the GPU at an address serves containers."""
        return self.of(card).for_containers

    def refusal(
        self, addresses: Iterable[PciAddress], inventory: Inventory
    ) -> GpusForContainers | None:
        """Why these functions are not for virtual machines; None where they are."""
        for address in addresses:
            function = inventory.function(address)
            gpu = gpu_of(function) if function is not None else None
            if gpu is None:
                continue
            serves = self.of(gpu.card)
            if serves.for_containers:
                name = names.pci_object_name(self._node, address)
                pods = (one for one in self._pods.store if gpu.vendor in vendors_of(one))
                users = tuple(sorted(str(key_of(one)) for one in pods))
                return GpusForContainers(name, self._node, serves.said, serves.change, users)
        return None


def _says(obj: Any) -> tuple[str, str]:
    """What an object says about whom GPUs serve; one that is not there says nothing."""
    if obj is None:
        return "", ""
    if isinstance(obj, CoreNode):
        labels = obj.metadata.labels
        label = label_of(labels)
        return label, labels.get(label, "")
    return "", obj.spec.workload


def vendors_of(pod: Pod | LightPod) -> frozenset[Vendor]:
    """Whose GPUs a pod has as containers have them; what runs a VM has them otherwise."""
    if pod.status.phase in _ENDED or LABEL_CREATED_BY in pod.metadata.labels:
        return frozenset()
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    found = (vendor_of_resource(name) for one in containers for name in one.resources.limits)
    return frozenset(one for one in found if one is not None)
