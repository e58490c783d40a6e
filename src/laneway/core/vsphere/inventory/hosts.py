"""What the hosts of a vCenter have, as its property collector tells it.

These are facts only: what is free follows from them and from what was reserved (`fit_on_host`).
"""

from __future__ import annotations

import msgspec

from laneway.core.vsphere.spec.requests import PciIds

SAME_SIZE = "sameSize"
MIXED_SIZE = "mixedSize"
MULTI_INSTANCE = "multiInstanceGpu"
"""Modes of a GPU (`graphicsInfo.vgpuMode`, 8.0.3); an older vCenter tells none: same size."""


class Device(msgspec.Struct, frozen=True, gc=False):
    """A PCI device that whole machines may have."""

    id: str
    """PCI address on its host, `0000:3b:00.0`."""
    ids: PciIds
    name: str = ""
    label: str = ""
    """Hardware label; empty: none."""
    display: bool = False
    """A GPU, by its PCI class."""
    active: bool = True
    """Passthrough is in force: enabled, and the host has booted since."""
    holder: str = ""
    """The VM (`vm-42`) that is on with it."""


class VgpuUser(msgspec.Struct, frozen=True, gc=False):
    """One vGPU of a VM that is on."""

    vm: str
    profile: str
    """Empty: unknown, as of a VM that we may not read."""


class Profile(msgspec.Struct, frozen=True, gc=False):
    """A vGPU profile as vCenter describes it."""

    name: str
    memory_gib: int
    """Framebuffer; 0: vCenter does not tell (before 7.0.3)."""
    mig: bool = False
    compute: bool = False
    migrates: bool = False
    """A vGPU of it can move by vMotion."""


class SharedGpu(msgspec.Struct, frozen=True, gc=False):
    """A GPU that vGPUs share (`graphicsInfo` of type sharedDirect)."""

    id: str
    name: str
    memory_gib: int
    mode: str = ""
    profiles: tuple[Profile, ...] = ()
    users: tuple[VgpuUser, ...] = ()


class GroupPart(msgspec.Struct, frozen=True, gc=False):
    """Devices of one kind in a vendor device group."""

    kind: str
    """`pciPassthru`, `nvidiaVgpu`, `sriovNic` or `dvx`."""
    name: str
    ids: PciIds | None = None
    """Of whole devices."""
    profile: str = ""
    """Of vGPUs."""
    label: str = ""


class DeviceGroup(msgspec.Struct, frozen=True, gc=False):
    """A vendor device group that a host offers."""

    name: str
    description: str = ""
    parts: tuple[GroupPart, ...] = ()


class Host(msgspec.Struct, frozen=True, gc=False):
    """One ESXi host, with all that machines can ask of it."""

    ref: str
    """Its managed object, `host-21`."""
    name: str
    datacenter: str = ""
    cluster: str = ""
    """Name of its cluster; of a host that is in none, its own name."""
    cluster_ref: str = ""
    """Managed object of the compute resource, `domain-c7`."""
    drs: bool = False
    """vCenter places VMs within the cluster by itself, when they are started."""
    groups_of: tuple[str, ...] = ()
    """Names of the host groups of the cluster that it is in."""
    connected: bool = True
    maintenance: bool = False
    shared_direct: bool = True
    """`hostDefaultGraphicsType` is sharedDirect, without which no vGPU starts."""
    devices: tuple[Device, ...] = ()
    shared_gpus: tuple[SharedGpu, ...] = ()
    device_groups: tuple[DeviceGroup, ...] = ()
