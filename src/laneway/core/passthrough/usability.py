"""Whether a device can be given to a virtual machine whole, and everything that speaks against it.

The one place for this judgement: the agent publishes it, the command line prints it, admission
will refuse by it, and all say the same. A reason is data (what it is and its facts); its words and
its remedy are made here too, in `text` and `remedy`, so that no two readers see different ones.

What VFIO demands decides: a device goes together with its IOMMU group (`iommu_group` has the rule).
So a device is also judged by its group members.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from laneway.core.inventory import Inventory, UsbDevice, VgpuFunction
from laneway.core.passthrough.iommu_group import by_group, goes_along, others_in, system_bridge
from laneway.core.pci import PciAddress, PciFunction

VFIO_DRIVER = "vfio-pci"
USB_HUB_CLASS = "09"

SERVES_NETWORK = "serves the node's network"
"""How the reason begins of a device that is critical for its network interface."""


class Effect(StrEnum):
    """What a reason does to the answer."""

    BLOCKS = "blocks"
    WARNS = "warns"
    INFORMS = "informs"


class ReasonKind(StrEnum):
    """Every reason there is; the value is the stable name for conditions and documentation."""

    CRITICAL = "CriticalToNode"
    BRIDGE = "Bridge"
    USB_HUB = "UsbHub"
    NO_IOMMU_GROUP = "NoIommuGroup"
    GROUP_CRITICAL = "GroupMemberCritical"
    GROUP_IN_USE = "GroupMemberInUse"
    VFS_ENABLED = "VirtualFunctionsEnabled"
    VGPU_CONFIGURED = "VgpuConfigured"
    VGPU_FUNCTION = "VgpuFunction"
    GROUP_MEMBERS = "GroupMembers"
    DISPLAY = "ConsoleDisplay"
    NO_RESET = "NoResetMethod"
    ON_VFIO = "AlreadyOnVfio"


_EFFECTS = {
    ReasonKind.DISPLAY: Effect.WARNS,
    ReasonKind.NO_RESET: Effect.WARNS,
    ReasonKind.GROUP_MEMBERS: Effect.INFORMS,
    ReasonKind.ON_VFIO: Effect.INFORMS,
}


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One fact about the question, with what a reader needs to act on it."""

    kind: ReasonKind
    devices: tuple[PciAddress, ...] = ()
    """The other functions concerned: group members, VFs, the PF."""
    details: tuple[str, ...] = ()
    """Why the node needs it (`holds swap space`), or the vGPU's profile."""
    group: int | None = None

    @property
    def effect(self) -> Effect:
        return _EFFECTS.get(self.kind, Effect.BLOCKS)


def usable(reasons: Iterable[Reason]) -> bool:
    """Whether nothing among the reasons forbids giving the device to a virtual machine."""
    return all(reason.effect is not Effect.BLOCKS for reason in reasons)


def judge_function(function: PciFunction, inventory: Inventory) -> list[Reason]:
    """Every reason about one function: what blocks first, then warnings, then information."""
    return _judge_function(function, _Index(inventory, (function,)))


def judge_all(inventory: Inventory) -> dict[PciAddress, list[Reason]]:
    """`judge_function` for every function of the inventory, in time linear in its size."""
    return judge_some(inventory, inventory.functions)


def judge_some(
    inventory: Inventory, functions: Iterable[PciFunction]
) -> dict[PciAddress, list[Reason]]:
    """`judge_function` for several functions of the inventory."""
    functions = tuple(functions)
    index = _Index(inventory, functions)
    return {function.address: _judge_function(function, index) for function in functions}


def judge_usb(device: UsbDevice, inventory: Inventory) -> list[Reason]:
    """Every reason about one USB device."""
    reasons = []
    if details := inventory.critical_usb.get(device.port):
        reasons.append(Reason(kind=ReasonKind.CRITICAL, details=details))
    if device.class_code == USB_HUB_CLASS:
        reasons.append(Reason(kind=ReasonKind.USB_HUB))
    return reasons


class _Index:
    """An inventory by the keys that judging some of its functions needs."""

    def __init__(self, inventory: Inventory, functions: Iterable[PciFunction]) -> None:
        self.critical = inventory.critical
        self.displays = inventory.displays
        self.vgpus: dict[PciAddress, VgpuFunction] = {v.address: v for v in inventory.vgpus}
        self.sriov_gpus = {f.address for f in inventory.functions if f.sriov_gpu}
        self.carriers: dict[PciAddress, list[VgpuFunction]] = defaultdict(list)
        for vgpu in inventory.vgpus:
            if vgpu.configured is not None:
                self.carriers[vgpu.parent].append(vgpu)
        self.groups = by_group(inventory, functions)

    def other_members(self, function: PciFunction) -> list[PciFunction]:
        return others_in(self.groups, function)


def _judge_function(function: PciFunction, index: _Index) -> list[Reason]:
    if system_bridge(function.class_code):
        return [Reason(kind=ReasonKind.BRIDGE)]
    reasons = [*_critical(function, index), *_occupied(function, index)]
    if function.iommu_group is None:
        reasons.append(Reason(kind=ReasonKind.NO_IOMMU_GROUP))
    reasons.extend(_shared_group(function, index))
    reasons.extend(_displays(function, index))
    if not function.reset_methods:
        reasons.append(Reason(kind=ReasonKind.NO_RESET))
    if function.driver == VFIO_DRIVER:
        reasons.append(Reason(kind=ReasonKind.ON_VFIO))
    order = list(Effect)
    return sorted(reasons, key=lambda reason: order.index(reason.effect))


def _critical(function: PciFunction, index: _Index) -> list[Reason]:
    details = index.critical.get(function.address)
    return [Reason(kind=ReasonKind.CRITICAL, details=details)] if details else []


def _occupied(function: PciFunction, index: _Index) -> list[Reason]:
    """What the function itself is already used for."""
    vgpu = index.vgpus.get(function.address)
    if vgpu is not None and vgpu.configured is not None:
        profile = vgpu.configured.type_name or vgpu.configured.type_id
        return [Reason(kind=ReasonKind.VGPU_CONFIGURED, details=(profile,))]
    if function.physfn is not None:
        if vgpu is not None or function.physfn in index.sriov_gpus:
            return [Reason(kind=ReasonKind.VGPU_FUNCTION, devices=(function.physfn,))]
        return []
    if function.vfs or function.num_vfs:
        profiles = tuple(
            f"{vgpu.address} has {vgpu.configured.type_name or vgpu.configured.type_id}"
            for vgpu in index.carriers[function.address]
            if vgpu.configured is not None
        )
        return [Reason(kind=ReasonKind.VFS_ENABLED, devices=function.vfs, details=profiles)]
    return []


def _shared_group(function: PciFunction, index: _Index) -> list[Reason]:
    """What the IOMMU group adds: members that cannot leave their driver, and those that will."""
    members = [member for member in index.other_members(function) if goes_along(member)]
    reasons: list[Reason] = []
    coming: list[PciAddress] = []
    for member in members:
        needed = index.critical.get(member.address, ())
        if system_bridge(member.class_code):
            needed = (*needed, f"system bridge on driver {member.driver}")
        if needed:
            kind, details = ReasonKind.GROUP_CRITICAL, needed
        elif occupied := _occupied(member, index):
            kind, details = ReasonKind.GROUP_IN_USE, tuple(text(reason) for reason in occupied)
        else:
            coming.append(member.address)
            continue
        reasons.append(
            Reason(
                kind=kind, devices=(member.address,), details=details, group=function.iommu_group
            )
        )
    if coming:
        reasons.append(
            Reason(kind=ReasonKind.GROUP_MEMBERS, devices=tuple(coming), group=function.iommu_group)
        )
    return reasons


def _displays(function: PciFunction, index: _Index) -> list[Reason]:
    """The console's display, whether it is the function itself or comes along."""
    return [
        Reason(kind=ReasonKind.DISPLAY, devices=(one.address,), details=shown)
        for one in (function, *index.other_members(function))
        if (shown := index.displays.get(one.address))
    ]


_TEXTS = {
    ReasonKind.CRITICAL: "critical to the node: {details}",
    ReasonKind.BRIDGE: "it is a bridge, which belongs to the node itself",
    ReasonKind.USB_HUB: "it is a hub; the devices plugged into it can be passed to VMs instead",
    ReasonKind.NO_IOMMU_GROUP: "it has no IOMMU group, so the node cannot isolate it",
    ReasonKind.GROUP_CRITICAL: (
        "it shares IOMMU group {group} with {devices}, which is critical to the node: {details}"
    ),
    ReasonKind.GROUP_IN_USE: (
        "it shares IOMMU group {group} with {devices}, which is in use: {details}"
    ),
    ReasonKind.VFS_ENABLED: "its virtual functions are enabled: {count}{details}",
    ReasonKind.VGPU_CONFIGURED: "a vGPU is configured on it: {details}",
    ReasonKind.VGPU_FUNCTION: "it is a virtual function of GPU {devices}, for vGPUs",
    ReasonKind.GROUP_MEMBERS: "other devices of IOMMU group {group} also leave the node: {devices}",
    ReasonKind.DISPLAY: ("the node's console stays blank until the next boot: {devices} {details}"),
    ReasonKind.NO_RESET: "the kernel has no method to reset it between two VMs",
    ReasonKind.ON_VFIO: "it is already on vfio-pci",
}

_REMEDIES = {
    ReasonKind.BRIDGE: "",
    ReasonKind.USB_HUB: "",
    ReasonKind.NO_IOMMU_GROUP: (
        "Enable the IOMMU: VT-d, AMD-Vi or SMMU in the firmware, and on Intel also"
        " intel_iommu=on on the kernel command line. Reboot the node."
    ),
    ReasonKind.GROUP_CRITICAL: (
        "Move the card to a slot with a group of its own, or enable ACS in the firmware."
    ),
    ReasonKind.GROUP_IN_USE: (
        "Free that device first, or move the card to a slot with a group of its own."
    ),
    ReasonKind.VFS_ENABLED: (
        "Use its virtual functions or the vGPUs on them in VMs, or disable these to pass it to a"
        " VM as a whole."
    ),
    ReasonKind.VGPU_CONFIGURED: "Use the vGPU in the VM instead of the function.",
    ReasonKind.VGPU_FUNCTION: (
        "Configure a vGPU on it through the VGPUDevice of the same name, and use that in the VM;"
        " or disable the GPU's virtual functions and claim the whole GPU."
    ),
    ReasonKind.GROUP_MEMBERS: "",
    ReasonKind.DISPLAY: "Make sure that you can reach the node over the network or a serial line.",
    ReasonKind.NO_RESET: "It may need a reboot of the node after each VM; test it first.",
    ReasonKind.ON_VFIO: "",
}


_FREE_INTERFACE = (
    "To free the interface, take it out of the bond or bridge (ip link set NAME nomaster) and"
    " remove its addresses (ip address flush dev NAME), in the node's configuration as well; on"
    " Harvester, change the VlanConfig that names it."
)


_OF_THE_NODE = ("bridge", "IOMMU", "(BMC)")
"""In what a device is to its node that no other device can be."""


def text(reason: Reason) -> str:
    """The reason in words, without capital or full stop, for conditions, tables and messages."""
    details = (" and " if reason.kind is ReasonKind.DISPLAY else "; ").join(reason.details)
    if reason.kind is ReasonKind.VFS_ENABLED and details:
        details = f" ({details})"
    return _TEXTS[reason.kind].format(
        details=details,
        devices=", ".join(map(str, reason.devices)),
        count=len(reason.devices) or "none visible yet",
        group=reason.group,
    )


def remedy(reason: Reason) -> str:
    """What to do about it, in whole sentences; empty when there is nothing to do."""
    return (
        needed_remedy(reason.details)
        if reason.kind is ReasonKind.CRITICAL
        else _REMEDIES[reason.kind]
    )


def needed_remedy(details: Iterable[str]) -> str:
    """How to free a device that is critical to its node for these reasons, in whole sentences."""
    reported = tuple(details)
    network = any(SERVES_NETWORK in one for one in reported)
    if network:
        return _FREE_INTERFACE
    if any(part in one for one in reported for part in _OF_THE_NODE):
        return "It is a part of the node itself; choose another device."
    return "Make the node use another device first."


def short(reasons: Iterable[Reason]) -> str:
    """The blocking reasons on one line, for a condition's message; empty when none blocks."""
    return "; ".join(text(reason) for reason in reasons if reason.effect is Effect.BLOCKS)
