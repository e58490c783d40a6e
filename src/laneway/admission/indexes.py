"""How the stores of a `World` are indexed, so that no rule goes through all objects of a kind.

An indexer is called by a store before the store is touched, and never raises.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from laneway.admission.capv.known import VCENTER, of_vcenter
from laneway.admission.clusterapi.known import SET, of_set
from laneway.admission.world import (
    COMING,
    DEVICE_NAME,
    FRAMEWORK,
    FRAMEWORKS,
    GPU_NODE,
    GROUP,
    NODE,
    PARENT,
    RESOURCE,
)
from laneway.api import (
    MigConfiguration,
    PCIDevice,
    PCIDeviceClaim,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    USBDeviceClaim,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.gpu_workloads import vendors_of
from laneway.controllers.ledger.objects import Pod
from laneway.core import allocation, keys, names
from laneway.core.pci import PciAddress
from laneway.kube.kubevirt import VirtualMachine, VirtualMachineInstance
from laneway.kube.store import Indexer

_ON_THE_WAY = ("NotPermitted", "NotRegistered")
"""Reasons of a device that is bound or made, but KubeVirt or the kubelet has yet to hear of it."""


def _desired_node(
    obj: PCIDeviceClaim | SRIOVNetworkDevice | SRIOVGPUDevice | VGPUDevice | MigConfiguration,
) -> Iterable[Hashable]:
    return _some(obj.spec.node_name)


def _seen_node(obj: PCIDevice | USBDevice | USBDeviceClaim) -> Iterable[Hashable]:
    return _some(obj.status.node_name)


def _resource(
    obj: PCIDevice | PCIDeviceClaim | VGPUDevice | USBDevice | USBDeviceClaim,
) -> Iterable[Hashable]:
    return _some(obj.status.resource_name)


def _framework(vgpu: VGPUDevice) -> Iterable[Hashable]:
    resource, framework = vgpu.status.resource_name, vgpu.status.framework
    return _made(resource, framework if framework in FRAMEWORKS else "") if resource else ()


@lru_cache(maxsize=1024)
def _made(resource: str, framework: str) -> tuple[tuple[str, str]]:
    """One object for the many that are made alike."""
    return ((resource, framework),)


def _coming(claim: PCIDeviceClaim | USBDeviceClaim) -> Iterable[Hashable]:
    """No agent has answered yet, or all that is missing is that others see the device."""
    if claim.metadata.deletion_timestamp:
        return ()
    conditions = claim.status.conditions
    ready = find_condition(conditions, "Ready")
    bound = find_condition(conditions, "Bound")
    if ready is None:
        return (True,)
    on_the_way = bound is not None and bound.status == "True" and ready.reason in _ON_THE_WAY
    return (True,) if ready.status != "True" and on_the_way else ()


def _coming_vgpu(vgpu: VGPUDevice) -> Iterable[Hashable]:
    """It is made, and others have yet to take note of it."""
    if vgpu.metadata.deletion_timestamp or not vgpu.spec.enabled:
        return ()
    found = find_condition(vgpu.status.conditions, "Advertised")
    waits = found is not None and found.status != "True" and found.reason in _ON_THE_WAY
    return (True,) if waits else ()


def _group(device: PCIDevice) -> Iterable[Hashable]:
    status = device.status
    if status.node_name and status.iommu_group:
        yield status.node_name, status.iommu_group


def _parent(obj: PCIDevice | VGPUDevice) -> Iterable[Hashable]:
    return _some(obj.metadata.labels.get(keys.LABEL_PARENT_GPU, ""))


def _parent_of_vgpu(vgpu: VGPUDevice) -> Iterable[Hashable]:
    """What its spec says, too: labels are for everybody to change."""
    yield from {*_parent(vgpu), *_gpu_of(vgpu)}


def _gpu_of(vgpu: VGPUDevice) -> Iterable[Hashable]:
    try:
        address = PciAddress.parse(vgpu.spec.parent_gpu_device_address)
    except ValueError:
        return
    if vgpu.spec.node_name:
        yield names.pci_object_name(vgpu.spec.node_name, address)


def _devices(obj: VirtualMachine | VirtualMachineInstance) -> Iterable[Hashable]:
    spec = obj.spec.template.spec if isinstance(obj, VirtualMachine) else obj.spec
    asked = (*spec.domain.devices.host_devices, *spec.domain.devices.gpus)
    found = {one.name for one in asked if one.name}
    try:
        recorded = allocation.devices_of(
            obj.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, "")
        )
    except ValueError:
        recorded = []  # It was spoilt by hand: it says nothing.
    return found.union(one.name for one in recorded)


def _gpu_node(pod: Pod) -> Iterable[Hashable]:
    return _some(pod.spec.node_name) if vendors_of(pod) else ()


def _some(text: str) -> Iterable[Hashable]:
    return (text,) if text else ()


INDEXERS: Mapping[str, Mapping[str, Indexer[Any]]] = {
    "nodes": {},
    "pci_devices": {NODE: _seen_node, RESOURCE: _resource, GROUP: _group, PARENT: _parent},
    "claims": {NODE: _desired_node, RESOURCE: _resource, COMING: _coming},
    "cards": {NODE: _desired_node},
    "gpus": {NODE: _desired_node},
    "vgpus": {
        NODE: _desired_node,
        RESOURCE: _resource,
        FRAMEWORK: _framework,
        PARENT: _parent_of_vgpu,
        COMING: _coming_vgpu,
    },
    "migs": {NODE: _desired_node},
    "layouts": {},
    "usb_devices": {NODE: _seen_node, RESOURCE: _resource},
    "usb_claims": {NODE: _seen_node, RESOURCE: _resource, COMING: _coming},
    "vms": {DEVICE_NAME: _devices},
    "instances": {DEVICE_NAME: _devices},
    "pods": {GPU_NODE: _gpu_node},
    "vsphere_hosts": {VCENTER: of_vcenter},
    "vsphere_reservations": {VCENTER: of_vcenter},
    "cluster_machines": {SET: of_set},
}
"""By the name of the field of `World`."""
