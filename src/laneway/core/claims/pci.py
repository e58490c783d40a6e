"""What is to be done for the claim of a PCI device, and for its end.

A claim counts when it has the name of the device's PCIDevice, which makes it the only one of its
device. It is about the device that was at the address when it was first seen: another one that is
there later is never taken. While any claim of an IOMMU group stands, the group stays with vfio-pci;
with the last one everything that Laneway took along goes back, though the claimed device itself be
gone. A claim of a device that the node uses stays refused until it is made again, whatever becomes
of that use meanwhile: while a node boots its bonds and mounts are not there yet. A claim that was
bound once has shown that the device is free: it waits for the end of the use. What is in quarantine
stays as it is, with its group: it is not allocated, so no claim waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from laneway.core import ids, names
from laneway.core.decision import TO_BE_PLANNED, Decision
from laneway.core.inventory import Inventory
from laneway.core.passthrough import binding
from laneway.core.passthrough.fitness import unfit
from laneway.core.passthrough.iommu_group import group_members
from laneway.core.passthrough.usability import VFIO_DRIVER, ReasonKind, judge_function, remedy, text
from laneway.core.pci import PciAddress, PciFunction
from laneway.core.plan import Satisfied
from laneway.core.refusals import (
    ClaimNameMismatch,
    DeviceNeeded,
    DeviceReplaced,
    DriverNotVfio,
    DuplicateClaim,
    VgpuNotConfigured,
)
from laneway.core.situation import Situation


class DeviceIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """What distinguishes a device from another one at its address; empty where not known."""

    vendor: str = ""
    device: str = ""
    card: str = ""
    """UUID of a GPU."""


class DesiredClaim(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim requests."""

    address: PciAddress
    claimed: bool
    """False once it is being deleted."""
    binds: bool = True
    """False: its driver is left alone, because others manage it."""
    identity: DeviceIdentity = DeviceIdentity()
    group: str = ""
    """The IOMMU group that was taken for it, as text."""
    refused: bool = False
    """Whether it has been refused because the node used the device."""
    was_bound: bool = False
    """Whether it has been bound before, maybe in an earlier boot."""
    vgpu: str = ""
    """Name of the VGPUDevice that it was made for, if it was made for one."""
    other_claims: tuple[str, ...] = ()
    """Other claims that stand and need the group."""


def misplaced(
    name: str, address: str, of_node: str, claims: Collection[tuple[str, str]]
) -> ClaimNameMismatch | DuplicateClaim | None:
    """What is wrong where a claim's name does not stand for its device.

    `claims`: name and address of every claim of the node.
    """
    try:
        expected = names.pci_object_name(of_node, PciAddress.parse(address))
    except ValueError:
        return ClaimNameMismatch(name, address, of_node, "")
    if name == expected:
        return None
    if (expected, address) in claims:
        return DuplicateClaim(name, expected)
    return ClaimNameMismatch(name, address, of_node, expected)


def other_claims_in_group(
    name: str,
    address: PciAddress,
    inventory: Inventory,
    claims: Iterable[tuple[str, PciAddress]],
    remembered: str = "",
) -> tuple[str, ...]:
    """The other standing claims that need the IOMMU group of a function.

    `remembered`: the group that was taken, which counts where the function is gone.
    """
    function = inventory.function(address)
    group = remembered if function is None else group_of(function)
    if not group:
        return ()
    there = {one.address for one in inventory.functions if group_of(one) == group}
    return tuple(sorted(other for other, of in claims if other != name and of in there))


def group_of(function: PciFunction) -> str:
    """The IOMMU group of a function, as claims remember it; empty where it has none."""
    return "" if function.iommu_group is None else str(function.iommu_group)


def identity(address: PciAddress, inventory: Inventory) -> DeviceIdentity:
    """What is at an address."""
    function = inventory.function(address)
    if function is None:
        return DeviceIdentity()
    card = inventory.identities.get(address, "")
    return DeviceIdentity(vendor=function.vendor, device=function.device, card=card)


def decide(desired: DesiredClaim, situation: Situation) -> Decision:
    """What is to be done for a desired state."""
    if desired.claimed:
        decision = _take(desired, situation)
        if desired.binds and not isinstance(decision, Satisfied):
            return _needed(desired, situation.inventory) or decision
        return decision
    left = _left(desired, situation, situation.originals)
    if not left or any(one.address in situation.quarantined for one in left):
        return Satisfied()
    if situation.at_a_glance:
        return TO_BE_PLANNED
    return binding.release(left[0].address, situation)


def places(
    desired: DesiredClaim, inventory: Inventory, taken: Collection[PciAddress]
) -> tuple[PciAddress, ...]:
    """The functions that a plan for a desired state is about."""
    situation = Situation(node="", inventory=inventory)
    function = inventory.function(desired.address)
    if function is not None:
        found = group_members(function, situation.inventory)
    else:
        found = _left(desired, situation, taken)
    return tuple(one.address for one in found)


def is_for_vms(function: PciFunction, inventory: Inventory) -> bool:
    """Whether a function is as VMs use it: on a VFIO driver, or with a vGPU on it.

    Drivers for VFIO are called so: vfio-pci, mlx5_vfio_pci, nvgrace-gpu-vfio-pci.
    """
    vgpu = inventory.vgpu(function.address)
    if vgpu is not None and vgpu.framework == "vendor-vfio":
        return vgpu.configured is not None
    return "vfio" in function.driver.replace("_", "-").split("-")


def _take(desired: DesiredClaim, situation: Situation) -> Decision:
    inventory = situation.inventory
    function = inventory.function(desired.address)
    if function is None:
        return unfit(desired.address, situation)
    now = identity(desired.address, inventory)
    if _differ(desired.identity, now):
        device = str(desired.address)
        return (DeviceReplaced(device, _words(desired.identity), _words(now)),)
    if desired.binds:
        return binding.bind(desired.address, situation)
    if is_for_vms(function, inventory):
        return Satisfied()
    if desired.vgpu:
        return (VgpuNotConfigured(desired.vgpu),)
    return (DriverNotVfio(str(desired.address), function.driver),)


def _needed(desired: DesiredClaim, inventory: Inventory) -> tuple[DeviceNeeded] | None:
    """That the node uses the device or a group member, or did when the claim was first decided."""
    function = inventory.function(desired.address)
    critical = [
        reason
        for reason in (judge_function(function, inventory) if function else ())
        if reason.kind in (ReasonKind.CRITICAL, ReasonKind.GROUP_CRITICAL)
    ]
    if not critical and (desired.was_bound or not desired.refused):
        return None
    remedies = tuple(dict.fromkeys(map(remedy, critical)))
    reasons = tuple(map(text, critical))
    return (DeviceNeeded(str(desired.address), reasons, remedies, was_bound=desired.was_bound),)


def _left(
    desired: DesiredClaim, situation: Situation, taken: Collection[PciAddress]
) -> list[PciFunction]:
    """What is still taken for a claim that ends, and what goes back with it."""
    if desired.other_claims or not desired.binds:
        return []
    inventory = situation.inventory
    function = inventory.function(desired.address)
    if function is not None:
        if _differ(desired.identity, identity(desired.address, inventory)):
            return []
        members = group_members(function, situation.inventory)
    elif desired.address not in taken:
        return []  # The group was taken before a boot, and its number is another's by now.
    else:
        members = [
            one
            for one in inventory.functions
            if desired.group and group_of(one) == desired.group and one.address in taken
        ]
    return [
        one
        for one in members
        if one.driver == VFIO_DRIVER or (not one.driver and one.address in taken)
    ]


def _differ(claimed: DeviceIdentity, found: DeviceIdentity) -> bool:
    """Whether a device is another one, as far as both are known."""
    pairs = zip(msgspec.structs.astuple(claimed), msgspec.structs.astuple(found), strict=True)
    return any(one and other and one != other for one, other in pairs)


def _words(one: DeviceIdentity) -> str:
    vendor = ids.pci_vendor(one.vendor) or "an unknown vendor's"
    device = ids.pci_device(one.vendor, one.device) or "device"
    card = f", {one.card}" if one.card else ""
    return f"{vendor} {device} ({one.vendor}:{one.device}{card})"
