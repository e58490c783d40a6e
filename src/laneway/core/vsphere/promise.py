"""What a machine was promised: which devices, on which host, before it is on and holds them."""

from __future__ import annotations

import msgspec

from laneway.core.vsphere.asked import Asked


class Seat(msgspec.Struct, frozen=True):
    """What one item of the spec is promised."""

    asked: Asked
    devices: tuple[str, ...]
    """Ids of the devices or boards on the host; more than one for a device group."""


class Promise(msgspec.Struct, frozen=True):
    """One machine's seats, all on one host. In force from before its clone until it is deleted."""

    machine: str
    """`namespace/name` of the VSphereVM."""
    host: str
    """`host-21`; where vCenter places, the host that has room for certain."""
    seats: tuple[Seat, ...]
    vm: str = ""
    """`vm-42`, once there is one. While it is on, what the host tells of it counts, not this."""
