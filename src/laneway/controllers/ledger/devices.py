"""The devices that VMs can request, as claims and VGPUDevices show them.

A vGPU of the vendor's VFIO framework has a claim, like any other function; one that is a mediated
device has none and stands for itself. What is being deleted is a device only as long as a VM or pod
still has it.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import (
    VGPU_CONFIGURED,
    Allocation,
    Condition,
    ObjectMeta,
    PCIDeviceClaim,
    USBDeviceClaim,
    VGPUDevice,
    find_condition,
)
from laneway.controllers.cluster.caches import Vgpu
from laneway.core import names
from laneway.core.ledger.facts import Consumer, ConsumerKind, DeviceFact

ADVERTISED = "Advertised"
"""The condition of a device that the kubelet allocates."""

_UNTOLD = "the agent has not reported that the kubelet advertises it"
_LEAVING = "it is being released"


def of_claim(claim: PCIDeviceClaim) -> DeviceFact | None:
    """The function that is claimed, once it has a resource."""
    status = claim.status
    return _fact(
        claim.metadata,
        claim.spec.node_name,
        status.resource_name,
        status.conditions,
        status.allocation,
    )


def of_usb_claim(claim: USBDeviceClaim) -> DeviceFact | None:
    """The USB device that is claimed, once it has a resource."""
    status = claim.status
    return _fact(
        claim.metadata,
        status.node_name,
        status.resource_name,
        status.conditions,
        status.allocation,
    )


def of_vgpu(vgpu: Vgpu | VGPUDevice) -> DeviceFact | None:
    """The vGPU of a VGPUDevice, if there is one and it is a mediated device."""
    status = vgpu.status
    if status.vgpu_status != VGPU_CONFIGURED or status.framework != "mdev":
        return None
    profile = status.configure_vgpu_type_name
    resource = status.resource_name or (names.vgpu_resource_name(profile) if profile else "")
    return _fact(vgpu.metadata, vgpu.spec.node_name, resource, status.conditions, status.allocation)


def _fact(
    meta: ObjectMeta,
    node: str,
    resource: str,
    conditions: Sequence[Condition],
    allocation: Allocation | None,
) -> DeviceFact | None:
    owner = _owner(allocation)
    if not node or not resource or (meta.deletion_timestamp and owner is None):
        return None
    unhealthy = _LEAVING if meta.deletion_timestamp else _unhealthy(conditions)
    return DeviceFact(node, resource, meta.name, unhealthy, owner)


def _owner(allocation: Allocation | None) -> Consumer | None:
    if allocation is None:
        return None
    if allocation.virtual_machine:
        return Consumer(ConsumerKind.VM, allocation.namespace, allocation.virtual_machine)
    return Consumer(ConsumerKind.POD, allocation.namespace, allocation.pod)


def _unhealthy(conditions: Sequence[Condition]) -> str:
    found = find_condition(conditions, ADVERTISED)
    if found is None:
        return _UNTOLD
    if found.status == "True":
        return ""
    return found.message.rstrip(".") or found.reason or _UNTOLD
