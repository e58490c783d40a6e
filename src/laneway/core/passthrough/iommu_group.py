"""The IOMMU group rule: VFIO takes all of a group or nothing.

A function goes to a VM only if every other function of its IOMMU group leaves its driver with it,
apart from bridges. The group is one piece for the hardware: its members can reach each other's
memory. `usability` judges a device by this rule, `binding` binds and releases whole groups by it,
and admission adds the other members to a VM that requests one of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from laneway.core.inventory import Inventory
from laneway.core.pci import PciFunction

_BRIDGE_CLASSES = frozenset(f"06{subclass:02x}" for subclass in (*range(8), 9))


def by_group(
    inventory: Inventory, functions: Iterable[PciFunction]
) -> Mapping[int, Sequence[PciFunction]]:
    """The groups of these functions, with all their members, bridges included."""
    asked = {one.iommu_group for one in functions}
    groups: defaultdict[int, list[PciFunction]] = defaultdict(list)
    for function in inventory.functions:
        if (group := function.iommu_group) in asked and group is not None:
            groups[group].append(function)
    return groups


def others_in(
    groups: Mapping[int, Sequence[PciFunction]], function: PciFunction
) -> list[PciFunction]:
    """The other functions of its group, bridges included; none for a function without a group."""
    if function.iommu_group is None:
        return []
    return [one for one in groups[function.iommu_group] if one.address != function.address]


def other_group_members(function: PciFunction, inventory: Inventory) -> list[PciFunction]:
    """The other functions of its IOMMU group, bridges included."""
    return others_in(by_group(inventory, (function,)), function)


def group_members(function: PciFunction, inventory: Inventory) -> list[PciFunction]:
    """The function and those group members that VFIO takes along, by address."""
    members = filter(goes_along, other_group_members(function, inventory))
    return sorted((function, *members), key=lambda member: member.address)


def goes_along(member: PciFunction) -> bool:
    """Whether a member of an IOMMU group takes part in VFIO, so that it must leave its driver.

    PCI bridges take no part, and neither does a driverless system bridge; one with a driver (an
    ISA bridge's `lpc_ich`) holds the group and cannot be taken from the node.
    """
    return not (member.is_bridge or (system_bridge(member.class_code) and not member.driver))


def system_bridge(class_code: str) -> bool:
    """Host, ISA, PCI and CardBus bridges are the node itself, whatever drives them.

    "Other bridge" (0680) is none: NVSwitches have that class, and VMs are given them.
    """
    return class_code[:4] in _BRIDGE_CLASSES
