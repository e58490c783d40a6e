"""What an agent watches: the objects of its own node, and what they may refer to.

These caches are complete before the first object is written, so that a restart changes nothing
that is already right. The caches of layouts and preparations are not waited for: a cluster may lack
these kinds, which Harvester does not have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from laneway.api import (
    CoreNode,
    DeviceNode,
    HostPreparation,
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    VGPULayout,
)
from laneway.controllers.device_plugin.controller import Caches
from laneway.controllers.devices import vgpu
from laneway.controllers.sharing.mig_labels import UNLABELLED
from laneway.core import keys
from laneway.core.workload import Workload
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import vm_of
from laneway.kube.narrowed import NarrowedInformer
from laneway.kube.pods import PODS
from laneway.kube.resource import KubeObject, served

T = TypeVar("T", bound=Any)


class NodeCaches:
    """The caches of one node's agent. Their owner runs each of `waited_for`."""

    def __init__(self, client: Client, node: str, *, has_kubelet: bool) -> None:
        self._client = client
        self.waited_for: list[Informer[KubeObject]] = []
        labelled = f"{keys.LABEL_NODE}={node}"
        self.gpus = self._cache(SRIOVGPUDevice, labelled)
        vgpus = replace(served(VGPUDevice), decoder=vgpu.decoded)
        self.vgpus = self._added(Informer(client, vgpus, label_selector=labelled))
        self.cards = self._cache(SRIOVNetworkDevice, labelled)
        self.migs = self._cache(MigConfiguration, labelled)
        self.unlabelled_migs = self._cache(MigConfiguration, UNLABELLED)
        self.pcis = self._cache(PCIDevice, labelled)
        self.usb = self._cache(USBDevice, labelled)
        # Claims carry no label.
        self.claims = self._added(
            NarrowedInformer(client, served(PCIDeviceClaim), narrow=f"spec.nodeName={node}")
        )
        # Nothing of a new claim for a USB device says of which node it is.
        self.usb_claims = self._cache(USBDeviceClaim)
        named = f"metadata.name={node}"
        self.nodes = self._cache(CoreNode, field_selector=named)
        self.device_nodes = self._cache(DeviceNode, field_selector=named)
        self.pods = Informer(client, PODS, field_selector=f"spec.nodeName={node}")
        if has_kubelet:
            self.waited_for.append(self.pods)
        self.layouts = Informer(client, served(VGPULayout))
        self.preparations = Informer(client, served(HostPreparation), field_selector=named)

    def for_device_plugin(self) -> Caches:
        """Those that decide what the kubelet is offered."""
        return Caches(self.claims, self.usb_claims, self.vgpus, self.pcis, self.pods)

    def desired_vgpus(self) -> dict[str, str]:
        """The profile that is desired of each virtual function, by its address."""
        return {
            one.spec.address: one.spec.vgpu_type_name
            for one in self.vgpus.store
            if one.spec.enabled
        }

    def workload(self, uid: str) -> Workload | None:
        """The pod of the node with this uid."""
        for pod in self.pods.store:
            metadata = pod.metadata
            if metadata.uid == uid:
                return Workload(metadata.namespace, metadata.name, vm_of(metadata))
        return None

    def _cache(
        self, cls: type[T], label_selector: str = "", *, field_selector: str = ""
    ) -> Informer[T]:
        cache = Informer(
            self._client,
            served(cls),
            label_selector=label_selector,
            field_selector=field_selector,
        )
        return self._added(cache)

    def _added(self, cache: Informer[T]) -> Informer[T]:
        self.waited_for.append(cache)
        return cache
