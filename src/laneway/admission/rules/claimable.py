"""Whether a PCI device can be claimed now, as its agent has published it.

The agent decides by the same facts before it touches anything; here they are only read, so that
the user gets the answer at once. What it has not said anything about yet is its own to decide. A
claim that leaves the driver alone takes nothing from the node, so only what cannot be done without
an IOMMU group is refused to it.
"""

from __future__ import annotations

from collections.abc import Sequence

from laneway.admission.rules import workloads
from laneway.admission.rules.common import Findings, pci_name
from laneway.admission.world import GROUP, NODE, PARENT, World
from laneway.api import PCIDevice, find_condition
from laneway.core import keys
from laneway.core.passthrough.iommu_group import system_bridge
from laneway.core.passthrough.usability import Reason, ReasonKind, remedy
from laneway.core.phrases import few
from laneway.core.reasons.former import renamed
from laneway.core.refusals import (
    CriticalToNode,
    GpuShared,
    GroupMemberInUse,
    NoIommuGroup,
    NotClaimable,
    UsbDevicesClaimed,
)

_GROUP_REASONS = (ReasonKind.GROUP_CRITICAL, ReasonKind.GROUP_IN_USE)


def against(world: World, device: PCIDevice, *, binds: bool) -> Findings:
    """What forbids a claim of a device. `binds`: the claim takes it from its driver."""
    name, status = device.metadata.name, device.status
    if not status.iommu_group:
        yield NoIommuGroup(name)
    members = group_members_of(world, device)
    # What shares the group of a GPU takes it along.
    for one in (device, *members) if binds else (device,):
        serves = workloads.of_device(world, one)
        yield from workloads.against(world, one.metadata.name, status.node_name, serves)
    if not binds:
        return
    functions = tuple(sorted(one.metadata.name for one in world.pci_devices.by(PARENT, name)))
    if functions:
        yield GpuShared(name, functions)
    yield from _unclaimable(device, members, shared=bool(functions))
    yield from _usb(world, device, members)


def _unclaimable(device: PCIDevice, members: Sequence[PCIDevice], *, shared: bool) -> Findings:
    """What the agent says of the device and its group, under the name that it has here."""
    name, status = device.metadata.name, device.status
    said = find_condition(status.conditions, "Claimable")
    refused = said is not None and said.status == "False"
    why = (said.message or said.reason) if said is not None else ""
    reason = renamed(said.reason) if said is not None and refused else ""
    if status.critical or reason == ReasonKind.CRITICAL:
        yield CriticalToNode(name, tuple(status.critical) or (why,))
        return
    needed = [one for one in members if one.status.critical]
    if reason in _GROUP_REASONS:
        yield GroupMemberInUse(name, status.iommu_group, why.rstrip("."))
    elif needed:
        texts = (
            f"{one.status.address} is critical to the node ({few(one.status.critical)})"
            for one in needed
        )
        yield GroupMemberInUse(name, status.iommu_group, "; ".join(texts))
    elif refused or status.claimable is False:
        reported = (reason == ReasonKind.VFS_ENABLED and shared) or (
            reason == ReasonKind.NO_IOMMU_GROUP and not status.iommu_group
        )
        if not reported:
            advice = remedy(Reason(kind=ReasonKind(reason))) if reason in set(ReasonKind) else ""
            yield NotClaimable("pcidevice", name, why or "the agent of its node reports so", advice)


def _usb(world: World, device: PCIDevice, members: Sequence[PCIDevice]) -> Findings:
    """The claimed USB devices on a controller that would go."""
    node = device.status.node_name
    going = {one.status.address for one in (device, *members)} - {""}
    claimed: dict[str, list[str]] = {}
    for claim in world.usb_claims.by(NODE, node):
        name = claim.metadata.name
        usb = world.usb_devices.get(name)
        seat = claim.status.pci_address or (usb.status.pci_address if usb else "")
        if seat in going:
            words = usb.status.description if usb else ""
            found = claimed.setdefault(pci_name(node, seat) or device.metadata.name, [])
            found.append(f"{name} ({words})" if words else name)
    for controller, names in sorted(claimed.items()):
        yield UsbDevicesClaimed(controller, tuple(sorted(names)))


def remarks(world: World, device: PCIDevice, user: str, *, binds: bool) -> Findings:
    """What is worth saying about a claim of a device that nothing forbids."""
    name, status = device.metadata.name, device.status
    if not binds:
        yield (
            f"The annotation {keys.ANNOTATION_SKIP_BINDING} leaves {name} on its driver: VMs can "
            "use it only if that is a VFIO driver."
        )
        return
    if status.boot_vga:
        yield f"The node's console is on {name}, and stays blank until the next boot."
    others, unclaimed = [], []
    for member in group_members_of(world, device):
        claim = world.claims.get(member.metadata.name)
        if claim is None and not system_bridge(member.status.class_id):
            unclaimed.append(member.metadata.name)
        elif claim is not None and claim.spec.user_name != user:
            others.append(member.metadata.name)
    group = status.iommu_group
    if unclaimed:
        yield (
            f"{few(sorted(unclaimed))} of the same IOMMU group {group} also leaves the node: claim "
            "it as well to use it in a VM."
        )
    if others:
        yield (
            f"{few(sorted(others))} of the same IOMMU group {group} is claimed by another user: "
            "only one VM at a time can use devices of the group."
        )


# --------------------------------------------------------------------------------- look-ups


def group_members_of(world: World, device: PCIDevice) -> list[PCIDevice]:
    """The other devices of its IOMMU group."""
    status = device.status
    if not status.iommu_group:
        return []
    group = world.pci_devices.by(GROUP, (status.node_name, status.iommu_group))
    return [one for one in group if one.metadata.name != device.metadata.name]
