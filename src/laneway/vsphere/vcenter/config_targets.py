"""What can be configured on a host, as `QueryConfigTarget` tells: sizes of profiles, device groups.

It tells kinds, not what is free, so it is asked once per host and again when the host's
configuration changes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from laneway.core.vsphere.inventory.hosts import DeviceGroup, GroupPart
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.vcenter.pyvmomi import vim

Kind = tuple[int, int]
"""Device and vendor of a card."""


class VCenterView(NamedTuple):
    """A vGPU profile."""

    memory_gib: int
    mig: bool
    compute: bool
    kinds: frozenset[Kind]
    """Of cards that it is for."""


class Target(msgspec.Struct, frozen=True):
    """Of one host."""

    profiles: dict[str, VCenterView] = {}
    largest: dict[Kind, int] = {}
    """The largest framebuffer of each kind of card, GiB."""
    groups: tuple[DeviceGroup, ...] = ()


NOTHING = Target()


def target_of(answer: Any) -> Target:
    """From a `ConfigTarget`; what an older vCenter does not know of is empty."""
    profiles: dict[str, VCenterView] = {}
    for one in _list(answer, "vgpuProfileInfo"):
        name = sys.intern(one.profileName)
        before = profiles[name].kinds if name in profiles else frozenset()
        profiles[name] = VCenterView(
            int(one.fbSizeInGib),  # not pyVmomi's own kind of number
            one.profileSharing == "mig",
            one.profileClass == "compute",
            before | {_kind(one.deviceVendorId)},
        )
    return Target(
        profiles,
        {
            _kind(one.deviceVendorId): int(one.maxFbSizeInGib)
            for one in _list(answer, "vgpuDeviceInfo")
        },
        tuple(_group(one) for one in _list(answer, "vendorDeviceGroupInfo")),
    )


def _list(answer: Any, name: str) -> Iterable[Any]:
    return getattr(answer, name, None) or ()


def _kind(number: int) -> Kind:
    return (number >> 16) & 0xFFFF, number & 0xFFFF


def _group(one: Any) -> DeviceGroup:
    return DeviceGroup(
        one.deviceGroupName or "",
        one.deviceGroupDescription or "",
        tuple(_part(part) for part in one.componentDeviceInfo),
    )


def _part(part: Any) -> GroupPart:
    backing = getattr(part.device, "backing", None)
    ids: PciIds | None = None
    profile = label = ""
    passthrough = vim.vm.device.VirtualPCIPassthrough
    match backing:
        case passthrough.VmiopBackingInfo():
            profile = backing.vgpu or ""
        case passthrough.DynamicBackingInfo():
            allowed = backing.allowedDevice[0] if backing.allowedDevice else None
            ids = PciIds(allowed.vendorId & 0xFFFF, allowed.deviceId & 0xFFFF) if allowed else None
            label = backing.customLabel or ""
        case passthrough.DeviceBackingInfo():
            ids = PciIds(backing.vendorId & 0xFFFF, int(backing.deviceId or "0", 16) & 0xFFFF)
        case _:
            pass
    return GroupPart(part.type or "", part.deviceName or "", ids, profile, label)
