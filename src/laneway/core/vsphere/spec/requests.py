"""What a machine requests: the items of `pciDevices`, after every spelling has become one form.

Numbers of vSphere come signed, as plain integers and as text; here they are plain unsigned 16 bits.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import msgspec


class PciIds(NamedTuple):
    """Which PCI device; None: any."""

    vendor: int
    device: int
    sub_vendor: int | None = None
    sub_device: int | None = None
    revision: int | None = None


class VgpuRequest(msgspec.Struct, frozen=True, tag=True):
    """A vGPU of a profile, as vCenter names it: `grid_t4-16q`."""

    profile: str


class PassthroughRequest(msgspec.Struct, frozen=True, tag=True):
    """A whole device by Dynamic DirectPath I/O: any that has one of these ids, and the label."""

    allowed: tuple[PciIds, ...]
    label: str = ""
    """Empty: whatever the device is labelled with."""


class GroupRequest(msgspec.Struct, frozen=True, tag=True):
    """A vendor device group (vSphere 8): all of its devices, on one host, or none."""

    name: str


DeviceRequest: TypeAlias = VgpuRequest | PassthroughRequest | GroupRequest


class Requested(msgspec.Struct, frozen=True):
    """All that one machine requests, in the order of its spec; all of it is of one host."""

    devices: tuple[DeviceRequest, ...] = ()
    peer_to_peer: bool = False
    """GPUs and network cards of it are to reach each other without the processor (GPUDirect)."""
