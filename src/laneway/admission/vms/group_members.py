"""The other devices of an IOMMU group, which go to the same VM or the group to none.

A group member that is claimed is added to the VM, once, whichever device brings it. One that
is not claimed cannot be added, as no VM could get it; a warning names it. A device without a group
has no group members, bridges take no part, and a name that is not known says nothing about the
others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from laneway.admission.vms.devices import Found, find, named
from laneway.admission.world import GROUP, World
from laneway.core.passthrough.iommu_group import system_bridge
from laneway.kube.kubevirt import DeviceRequest


class GroupMembers(NamedTuple):
    """What devices bring along."""

    claimed: tuple[tuple[DeviceRequest, str], ...]
    """Entries of `hostDevices`, each with the device whose group it is in; in the order of the
    devices that bring them, then by name."""
    unclaimed: tuple[tuple[str, str], ...]
    """Names, each with the device that it is a group member of."""


def group_members_of(requests: Iterable[DeviceRequest], world: World) -> GroupMembers:
    """The group members that these entries lack."""
    asked = list(requests)
    seen = {one.name for one in asked}
    claimed: list[tuple[DeviceRequest, str]] = []
    unclaimed: list[tuple[str, str]] = []
    for one in asked:
        found = named(world, one)
        group = _group(found)
        if found is None or group is None:
            continue
        for member in sorted(world.pci_devices.by(GROUP, group), key=lambda one: one.metadata.name):
            name = member.metadata.name
            if name in seen or system_bridge(member.status.class_id):
                continue
            seen.add(name)
            if resource := _resource(find(world, name)):
                claimed.append((DeviceRequest(name=name, device_name=resource), found.name))
            else:
                unclaimed.append((name, found.name))
    return GroupMembers(tuple(claimed), tuple(unclaimed))


def _group(found: Found | None) -> tuple[str, str] | None:
    """The group of a device that is passed through itself, as the index has it."""
    if found is None or found.pci is None or found.claim is None or found.is_mediated:
        return None
    return found.pci.status.node_name, found.pci.status.iommu_group


def _resource(member: Found | None) -> str:
    """By what a group member is to be requested; empty while no VM can have it."""
    if member is None or member.claim is None or member.claim.metadata.deletion_timestamp:
        return ""
    return member.resources[0] if member.resources else ""
