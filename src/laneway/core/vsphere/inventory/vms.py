"""A machine as vCenter shows it, and as it should be: what steps are decided from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from laneway.core.vsphere.spec.requests import PciIds


class VgpuBacking(msgspec.Struct, frozen=True, tag=True):
    """A vGPU."""

    profile: str


class DynamicBacking(msgspec.Struct, frozen=True, tag=True):
    """A whole device that vCenter picks."""

    allowed: tuple[PciIds, ...]
    label: str = ""
    assigned: str = ""
    """PCI address of the device that the VM has, while it is on."""


class FixedBacking(msgspec.Struct, frozen=True, tag=True):
    """One certain device of one host; Laneway never adds such, but may find one in a template."""

    id: str


Backing: TypeAlias = VgpuBacking | DynamicBacking | FixedBacking


class Attached(msgspec.Struct, frozen=True):
    """A passthrough device that a VM has."""

    key: int
    backing: Backing
    group: int = 0
    """`deviceGroupInfo.groupInstanceKey`; 0: of no group."""
    group_name: str = ""
    """Name of that vendor device group; empty: vCenter does not tell."""


class VmState(msgspec.Struct, frozen=True):
    """A VM, as far as a machine is concerned."""

    ref: str
    """`vm-42`."""
    name: str
    instance_uuid: str
    bios_uuid: str
    hardware_version: int
    """19 for `vmx-19`."""
    on: bool
    host: str
    """`host-21`; the host on which it is registered, on or off."""
    host_name: str = ""
    devices: tuple[Attached, ...] = ()
    memory_locked: bool = False
    nested: bool = False
    """Hardware virtualisation is shown to the guest."""
    efi: bool = False
    extra: Mapping[str, str] = {}
    """`extraConfig`, as far as Laneway looks at it."""
    addresses: tuple[str, ...] = ()
    macs: tuple[str, ...] = ()
    """Of its network cards, in the order in which they were made."""
    tasks: tuple[str, ...] = ()
    """Tasks of vCenter at work on it now."""


class Fault(msgspec.Struct, frozen=True):
    """Why vCenter did not do what it was asked."""

    type: str
    """Name of the fault's type, which no language changes: `InsufficientGraphicsResourcesFault`."""
    text: str
    """What vCenter says, in its language."""


class TaskState(NamedTuple):
    """How far a task of vCenter is."""

    done: bool
    result: str = ""
    """Managed object that came of it, `vm-42`."""
    fault: Fault | None = None
