"""How much of one resource some hosts have, which VMs use it, and how much is free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from laneway.core.refusals.vsphere import Supply
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.offers import shown
from laneway.core.vsphere.placement.domain import unavailable_because
from laneway.core.vsphere.placement.free import FreeDevices, Unit, free_on_host, owed, serves
from laneway.core.vsphere.placement.host_fit import fit_on_host
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.placement.vgpu_fit import Load, vgpu_size, vgpus_left
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    Requested,
    VgpuRequest,
)


class Stock(NamedTuple):
    """A host, and what of it is free and reserved."""

    host: Host
    free: FreeDevices
    reservations: Sequence[Reservation]
    owed: Sequence[tuple[str, Unit, str]]
    """What is kept for machines that are not on: the machine, what, and on which device."""


def stocks(hosts: Sequence[Host], kept: Mapping[str, Sequence[Reservation]]) -> list[Stock]:
    """Hosts with the reservations that count, by host."""
    found = []
    for host in hosts:
        reservations = kept.get(host.ref, ())
        owed_there = [(one.machine, *unit) for one in reservations for unit in owed(host, one)]
        found.append(Stock(host, free_on_host(host, reservations), reservations, owed_there))
    return found


def supply(
    there: Sequence[Stock],
    request: DeviceRequest,
    *,
    count: int = 1,
    excluded: Collection[str] = (),
    exactly: bool = False,
) -> Supply:
    """What there is of one thing. Of hosts that are closed it is part of the total alone.

    `exactly`: devices with a label are not counted where none is requested, nor holders of another
    profile on a GPU that would do.
    """
    machines = {one.vm: one.machine for stock in there for one in stock.reservations if one.vm}
    total = free = 0
    in_use: Counter[str] = Counter()
    reserved_for: Counter[str] = Counter()
    for stock in there:
        of_host = _of(stock, request, exactly)
        if not of_host.total:
            continue
        total += of_host.total
        for vm in of_host.users:
            in_use[f"{machines[vm]} ({vm})" if vm in machines else vm] += 1
        reserved_for.update(of_host.machines)
        if not unavailable_because(stock.host, Requested((request,)), excluded):
            free += of_host.free
    return Supply(shown(request), count, total, free, _most(in_use), _most(reserved_for))


def _most(names: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(names.items(), key=lambda item: (-item[1], item[0])))


class _Part(NamedTuple):
    """What one host has of something."""

    total: int = 0
    free: int = 0
    users: Sequence[str] = ()
    """The VM of each that is in use."""
    machines: Sequence[str] = ()
    """The machine that each is reserved for."""


def _of(stock: Stock, request: DeviceRequest, exactly: bool) -> _Part:
    if isinstance(request, GroupRequest):
        return _groups(stock, request)
    if isinstance(request, PassthroughRequest):
        return _devices(stock, request, exactly)
    return _vgpus(stock, request, exactly)


def _groups(stock: Stock, request: GroupRequest) -> _Part:
    """A host has a group or not; the holders of its devices do not matter."""
    if not any(one.name == request.name for one in stock.host.device_groups):
        return _Part()
    machines = [
        one.machine
        for one in stock.reservations
        if any(allocation.request == request for allocation in one.allocations)
    ]
    has_room = fit_on_host(stock.host, Requested((request,)), stock.reservations) is not None
    return _Part(1, int(has_room), (), machines)


def _devices(stock: Stock, request: PassthroughRequest, exactly: bool) -> _Part:
    fit = {
        one.id: one
        for one in stock.host.devices
        if one.active and serves(one, request) and (not exactly or one.label == request.label)
    }
    waiting = sum(one.label in ("", request.label) for one in stock.free.waiting)
    return _Part(
        len(fit),
        max(0, sum(one.id in fit for one in stock.free.devices) - waiting),
        [one.holder for one in fit.values() if one.holder],
        [machine for machine, _, at in stock.owed if at in fit],
    )


def _vgpus(stock: Stock, request: VgpuRequest, exactly: bool) -> _Part:
    name = request.profile
    shared_gpus = {
        gpu.id: (gpu, load)
        for gpu, load in zip(stock.free.shared_gpus, stock.free.loads, strict=True)
        if vgpu_size(gpu, name) is not None
    }
    return _Part(
        sum(vgpus_left(gpu, Load(), name) for gpu, _ in shared_gpus.values()),
        sum(vgpus_left(gpu, load, name) for gpu, load in shared_gpus.values()),
        [
            user.vm
            for gpu, _ in shared_gpus.values()
            for user in gpu.users
            if user.profile == name or not exactly
        ],
        [
            machine
            for machine, unit, at in stock.owed
            if at in shared_gpus
            and isinstance(unit, VgpuRequest)
            and (unit == request or not exactly)
        ],
    )
