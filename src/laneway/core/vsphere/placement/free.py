"""What is free on a host, less what others have and have reserved.

A VM that is on has what its host tells of it, wherever that was reserved: vCenter picks the device.
Of every other reservation the rest is kept free: the very devices that it names, or equal ones
where these are in use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from laneway.core.vsphere.inventory.hosts import Device, GroupPart, Host, SharedGpu
from laneway.core.vsphere.placement.pairing import assign
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.placement.vgpu_fit import (
    Load,
    add_vgpu,
    capacity_of,
    current_load,
    vgpu_size,
)
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    PciIds,
    VgpuRequest,
)

Unit: TypeAlias = VgpuRequest | PassthroughRequest
"""One device. A group is requested by name and is several of these."""


class FreeDevices(NamedTuple):
    """What is free on a host."""

    devices: tuple[Device, ...]
    waiting: tuple[PassthroughRequest, ...]
    """Devices that are reserved, and whose place another VM took."""
    shared_gpus: tuple[SharedGpu, ...]
    loads: tuple[Load, ...]
    """Of the GPUs, with what is reserved on them."""


def is_one_of(allowed: Sequence[PciIds], ids: PciIds) -> bool:
    """Whether a device can be one of those that are allowed; what vCenter does not tell may be."""
    for one in allowed:
        if one[0] == ids[0] and one[1] == ids[1]:
            rest = zip(one[2:], ids[2:], strict=True)
            if all(None in (want, have) or want == have for want, have in rest):
                return True
    return False


def serves(device: Device, request: PassthroughRequest) -> bool:
    """Whether a device is what is requested, whatever its holder."""
    return request.label in ("", device.label) and is_one_of(request.allowed, device.ids)


def units_of(host: Host, request: DeviceRequest) -> tuple[Unit, ...] | None:
    """The devices that an item comes to on a host; None: the host does not offer the group."""
    if not isinstance(request, GroupRequest):
        return (request,)
    group = next((one for one in host.device_groups if one.name == request.name), None)
    if group is None:
        return None
    return tuple(unit for part in group.parts if (unit := _unit(part)) is not None)


def _unit(part: GroupPart) -> Unit | None:
    """None for virtual functions and the like, whose users vCenter does not report."""
    if part.profile:
        return VgpuRequest(part.profile)
    return PassthroughRequest((part.ids,), part.label) if part.ids is not None else None


def free_on_host(
    host: Host, reservations: Iterable[Reservation], *, devices: bool = True, vgpus: bool = True
) -> FreeDevices:
    """What is free on a host, less its VMs that are on and these reservations.

    Only whole devices or only vGPUs are looked at where the others do not matter.
    """
    free: dict[str, Device] = {}
    if devices:
        free = {one.id: one for one in host.devices if one.active and not one.holder}
    shared_gpus = {one.id: one for one in host.shared_gpus} if vgpus else {}
    loads = {at: current_load(one) for at, one in shared_gpus.items()}
    adrift: list[VgpuRequest] = []
    waiting: list[PassthroughRequest] = []
    for reservation in reservations:
        if reservation.host != host.ref:
            continue
        for unit, at in owed(host, reservation):
            if isinstance(unit, PassthroughRequest):
                if devices and free.pop(at, None) is None:
                    waiting.append(unit)
            elif vgpus and not _put(unit, shared_gpus.get(at), loads):
                adrift.append(unit)
    for unit in adrift:
        any(_put(unit, gpu, loads) for gpu in shared_gpus.values())
    return FreeDevices(
        tuple(free.values()), tuple(waiting), tuple(shared_gpus.values()), tuple(loads.values())
    )


def _put(unit: VgpuRequest, gpu: SharedGpu | None, loads: dict[str, Load]) -> bool:
    """Put a vGPU on a GPU if it has room."""
    if gpu is None or (size := vgpu_size(gpu, unit.profile)) is None:
        return False
    load = add_vgpu(capacity_of(gpu), gpu.mode, loads[gpu.id], size)
    if load is not None:
        loads[gpu.id] = load
    return load is not None


def owed(host: Host, reservation: Reservation) -> list[tuple[Unit, str]]:
    """What a reservation keeps free: its devices, less those that its VM has already."""
    units = list(_reserved(host, reservation))
    if not reservation.vm:
        return units
    had = [one for one in host.devices if one.holder == reservation.vm]
    vgpus = Counter(
        user.profile for one in host.shared_gpus for user in one.users if user.vm == reservation.vm
    )
    if not had and not vgpus:
        return units
    fits: dict[int, Sequence[int]] = {}
    for index, (unit, named) in enumerate(units):
        if isinstance(unit, PassthroughRequest):
            fit = [at for at, one in enumerate(had) if one.id == named or serves(one, unit)]
            fits[index] = sorted(fit, key=lambda at: had[at].id != named)
    there = set(assign(fits))
    for index, (unit, _) in enumerate(units):
        if isinstance(unit, VgpuRequest):
            # A vGPU of a VM that may not be read has no profile, and is one of those reserved.
            name = unit.profile if vgpus[unit.profile] else ""
            if vgpus[name]:
                vgpus[name] -= 1
                there.add(index)
    return [one for index, one in enumerate(units) if index not in there]


def _reserved(host: Host, reservation: Reservation) -> Iterator[tuple[Unit, str]]:
    for allocation in reservation.allocations:
        units = units_of(host, allocation.request) or ()
        if len(units) == len(allocation.devices):
            yield from zip(units, allocation.devices, strict=True)
        else:
            # The group has changed since: the devices that were named stay reserved.
            yield from ((PassthroughRequest(()), at) for at in allocation.devices)
