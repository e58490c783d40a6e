"""PCI devices as a family of devices that users claim: what goes with which."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.admission.world import GROUP
from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.core.passthrough.iommu_group import system_bridge
from laneway.kube.resource import served
from laneway.web.claiming.family import Family
from laneway.web.claiming.rows import Row
from laneway.web.visit import Visit


def row_of(visit: Visit, name: str) -> Row | None:
    """A device by name."""
    caches = visit.caches
    device, claim = caches.pci.store.get(name), caches.claims.store.get(name)
    return None if device is None and claim is None else Row(name, device, claim)


def members_of(visit: Visit, row: Row) -> list[Row]:
    """All devices of its IOMMU group by address, itself among them."""
    if not isinstance(row.device, PCIDevice) or not row.device.status.iommu_group:
        return []
    status = row.device.status
    found = visit.caches.pci.store.by(GROUP, (status.node_name, status.iommu_group))
    devices = sorted(found, key=lambda one: one.status.address)
    claims = visit.caches.claims.store
    return [Row(one.metadata.name, one, claims.get(one.metadata.name)) for one in devices]


def stays(row: Row) -> bool:
    """Whether a device stays on its driver when its group leaves the node: a bridge."""
    return isinstance(row.device, PCIDevice) and system_bridge(row.device.status.class_id)


def _together(visit: Visit, row: Row) -> Sequence[Row]:
    members = members_of(visit, row)
    return [one for one in members if one.name != row.name and not stays(one)]


FAMILY = Family("pci", "PCIDevice", served(PCIDeviceClaim), row_of, _together)
