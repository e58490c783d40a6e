"""What a machine has reserved: which devices, on which host, before it is on and holds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.spec.requests import DeviceRequest


class DeviceAllocation(msgspec.Struct, frozen=True):
    """What one item of the spec has reserved."""

    request: DeviceRequest
    devices: tuple[str, ...]
    """Ids of the devices or GPUs on the host; more than one for a device group."""


class Reservation(msgspec.Struct, frozen=True):
    """One machine's seats, all on one host. In force from before its clone until it is deleted."""

    machine: str
    """`namespace/name` of the VSphereVM."""
    host: str
    """`host-21`; where vCenter places, the host that has room for certain."""
    allocations: tuple[DeviceAllocation, ...]
    vm: str = ""
    """`vm-42`, once there is one. While it is on, what the host tells of it counts, not this."""


def by_host(
    hosts: Iterable[Host], reservations: Iterable[Reservation], but: str = ""
) -> Mapping[str, Sequence[Reservation]]:
    """The reservations that count, by the ref of the host; those of one machine left out.

    A VM that is on with devices of another host than the reserved one keeps nothing free there.
    """
    homes: dict[str, set[str]] = {}
    for host in hosts:
        for device in host.devices:
            if device.holder:
                homes.setdefault(device.holder, set()).add(host.ref)
        for gpu in host.shared_gpus:
            for user in gpu.users:
                homes.setdefault(user.vm, set()).add(host.ref)
    found: dict[str, list[Reservation]] = {}
    for reservation in sorted(reservations, key=_name):
        if but and reservation.machine == but:
            continue
        at = homes.get(reservation.vm) if reservation.vm else None
        if at is None or reservation.host in at:
            found.setdefault(reservation.host, []).append(reservation)
    return found


def _name(reservation: Reservation) -> str:
    return reservation.machine
