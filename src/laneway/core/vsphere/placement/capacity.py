"""How much there is in a cluster or failure domain, and for how many machines that is enough.

Machines that are alike fit on hosts independently of each other, so what fits is a sum over hosts:
the answer holds in whatever order they come, and wherever vCenter puts those that fit.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from laneway.core.refusals.vsphere import Supply
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.offers import offered_by
from laneway.core.vsphere.placement.domain import ANYWHERE, Domain, unavailable_because
from laneway.core.vsphere.placement.free import free_on_host, serves
from laneway.core.vsphere.placement.host_fit import fit_on_host
from laneway.core.vsphere.placement.reservation import Reservation, by_host
from laneway.core.vsphere.placement.supply import stocks, supply
from laneway.core.vsphere.placement.vgpu_fit import vgpus_left
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    Requested,
    VgpuRequest,
)

_MACHINES = 10_000
"""More are not counted."""


class Kind(msgspec.Struct, frozen=True):
    """One thing that can be requested, and how much of it there is."""

    request: DeviceRequest
    name: str
    """Of the device or GPU, `Tesla T4`."""
    supply: Supply


class Capacity(msgspec.Struct, frozen=True):
    """What a part of a vCenter has."""

    domain: Domain
    hosts: int
    kinds: tuple[Kind, ...]
    skipped: tuple[tuple[str, str], ...]
    """Hosts on which nothing is free, with the reason."""


def domains(hosts: Sequence[Host]) -> tuple[Domain, ...]:
    """The clusters of these hosts."""
    return tuple(
        Domain(*assign) for assign in sorted({(one.datacenter, one.cluster) for one in hosts})
    )


def capacity(
    hosts: Sequence[Host], reservations: Sequence[Reservation], domain: Domain = ANYWHERE
) -> Capacity:
    """All that can be requested in a domain. `hosts`: all that the vCenter has."""
    kept = by_host(hosts, reservations)
    mine = sorted((host for host in hosts if domain.has(host)), key=lambda host: host.name)
    offer = offered_by(mine)
    there = stocks(mine, kept)
    return Capacity(
        domain=domain,
        hosts=len(mine),
        kinds=tuple(
            Kind(request, name, supply(there, request, count=0, exactly=True))
            for request, name in offer.items()
        ),
        skipped=tuple(
            (host.name, why)
            for host in mine
            if (why := unavailable_because(host, _here(host, offer)))
        ),
    )


def _here(host: Host, offer: Collection[DeviceRequest]) -> Requested:
    """All that can be requested; of a host without GPUs its graphics do not matter."""
    return Requested(tuple(offer)) if host.shared_gpus else Requested()


def fits(
    hosts: Sequence[Host],
    requested: Requested,
    reservations: Sequence[Reservation],
    domain: Domain = ANYWHERE,
    *,
    limit: int = _MACHINES,
) -> int:
    """How many such machines there is room for now, up to a limit."""
    if not requested.devices:
        return limit
    kept = by_host(hosts, reservations)
    total = 0
    for host in hosts:
        if domain.has(host) and not unavailable_because(host, requested):
            total += _on_host(host, requested, list(kept.get(host.ref, ())), limit - total)
            if total >= limit:
                return limit
    return total


def _on_host(host: Host, requested: Requested, reservations: list[Reservation], limit: int) -> int:
    first, count = requested.devices[0], len(requested.devices)
    if set(requested.devices) == {first} and not isinstance(first, GroupRequest):
        vgpus = isinstance(first, VgpuRequest)
        free = free_on_host(host, reservations, devices=not vgpus, vgpus=vgpus)
        if isinstance(first, VgpuRequest):
            shared_gpus = zip(free.shared_gpus, free.loads, strict=True)
            each = (vgpus_left(gpu, load, first.profile) for gpu, load in shared_gpus)
            return sum(each) // count
        if not free.waiting:
            return sum(serves(device, first) for device in free.devices) // count
    there = 0
    taken = list(reservations)
    while there < limit and (found := fit_on_host(host, requested, taken)) is not None:
        taken.append(Reservation("", host.ref, found.allocations))
        there += 1
    # One after the other they may have been put so that room is wasted.
    while there < limit and fit_on_host(
        host, Requested(requested.devices * (there + 1)), reservations
    ):
        there += 1
    return there
