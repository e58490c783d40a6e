"""PCI devices as a family of devices that users claim: what goes with which."""

from __future__ import annotations

from collections.abc import Sequence

from laneway.admission.world import GROUP
from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.core.passthrough.iommu_group import system_bridge
from laneway.kube.resource import served
from laneway.web.caches import Caches
from laneway.web.claiming.family import Family
from laneway.web.claiming.rows import Row, row
from laneway.web.visit import Visit


def row_of(caches: Caches, name: str) -> Row | None:
    """A device by name."""
    return row(name, caches.pci.store.get(name), caches.claims.store.get(name))


def members_of(visit: Visit, one: Row) -> list[Row]:
    """All devices of its IOMMU group by address, itself among them."""
    if not isinstance(one.device, PCIDevice) or not one.device.status.iommu_group:
        return []
    status = one.device.status
    found = visit.caches.pci.store.by(GROUP, (status.node_name, status.iommu_group))
    names = [member.metadata.name for member in sorted(found, key=lambda one: one.status.address)]
    return [member for name in names if (member := row_of(visit.caches, name))]


def stays(one: Row) -> bool:
    """Whether a device stays on its driver when its group leaves the node: a bridge."""
    return isinstance(one.device, PCIDevice) and system_bridge(one.device.status.class_id)


def _together(visit: Visit, one: Row) -> Sequence[Row]:
    members = members_of(visit, one)
    return [member for member in members if member.name != one.name and not stays(member)]


FAMILY = Family("pci", served(PCIDeviceClaim), row_of, _together)
