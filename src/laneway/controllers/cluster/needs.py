"""Which entry among KubeVirt's permitted devices an object needs, if it needs one now."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.api import (
    VGPU_CONFIGURED,
    Condition,
    PCIDeviceClaim,
    USBDeviceClaim,
    find_condition,
)
from laneway.controllers.cluster.caches import Vgpu
from laneway.core import permitted
from laneway.core.permitted import Entry, Way, needed


def of_claim(claim: PCIDeviceClaim | None) -> Entry | None:
    """The entry that a claim needs now, if it needs one."""
    if claim is None or not needed(_way(claim)):
        return None
    status = claim.status
    return permitted.pci(status.vendor_id, status.device_id, status.resource_name)


def of_usb_claim(claim: USBDeviceClaim | None) -> Entry | None:
    """The same for a USB device."""
    if claim is None or not needed(_way(claim)):
        return None
    status = claim.status
    return permitted.usb(status.vendor_id, status.product_id, status.resource_name)


def of_vgpu(vgpu: Vgpu | None) -> Entry | None:
    """The same for a mediated device; a vGPU of the other framework has a claim."""
    if vgpu is None or vgpu.status.framework != "mdev":
        return None
    spec, status = vgpu.spec, vgpu.status
    way = Way(
        bound=status.vgpu_status == VGPU_CONFIGURED,
        advertised=_holds(status.conditions, "Advertised"),
        leaving=not spec.enabled or spec.vgpu_type_name != status.configure_vgpu_type_name,
    )
    if not needed(way):
        return None
    return permitted.mdev(status.configure_vgpu_type_name, status.resource_name)


def _way(claim: PCIDeviceClaim | USBDeviceClaim) -> Way:
    conditions = claim.status.conditions
    return Way(
        bound=_holds(conditions, "Bound"),
        advertised=_holds(conditions, "Advertised"),
        leaving=claim.metadata.deletion_timestamp is not None,
    )


def _holds(conditions: Sequence[Condition], aspect: str) -> bool:
    condition = find_condition(conditions, aspect)
    return condition is not None and condition.status == "True"
