"""What was taken for claims of which none is left.

A claim cannot go without its device being released, unless its finalizer is removed or
the cluster's state is set back. What was taken at the node itself, by hand or by its configuration,
is left alone here, however much it looks the same.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from laneway.core.inventory import Inventory
from laneway.core.passthrough.usability import VFIO_DRIVER
from laneway.core.pci import PciAddress


class Orphans(NamedTuple):
    """Devices that no claim requests."""

    ours: tuple[PciAddress, ...]
    """Taken for a claim, one of each IOMMU group: these are to be released."""
    others: tuple[PciAddress, ...]
    """On vfio-pci for another reason."""
    settled: tuple[str, ...]
    """Noted as taken, but not so any more."""


def orphans(
    inventory: Inventory, noted: Collection[str], claimed: Collection[PciAddress]
) -> Orphans:
    """`noted`: what was taken for claims. `claimed`: what claims request now."""
    asked = {
        function.iommu_group
        for function in inventory.functions
        if function.address in claimed and function.iommu_group is not None
    }
    there = {str(function.address): function for function in inventory.functions}
    ours: dict[int | None, PciAddress] = {}
    others = []
    for name, function in there.items():
        if function.driver not in ("", VFIO_DRIVER) or function.iommu_group in asked:
            continue
        if name in noted:
            ours.setdefault(function.iommu_group, function.address)
        elif function.driver == VFIO_DRIVER:
            others.append(function.address)
    settled = [
        name
        for name in noted
        if (":" in name and name not in there)
        or (name in there and there[name].driver not in ("", VFIO_DRIVER))
    ]
    return Orphans(
        ours=tuple(sorted(ours.values())),
        others=tuple(one for one in others if there[str(one)].iommu_group not in ours),
        settled=tuple(sorted(settled)),
    )
