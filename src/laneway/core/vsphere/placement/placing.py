"""Choosing the host of a machine, and its seats there: all of its devices, or a reason.

Of the hosts with room it takes the one where it is least in the way of others: no labelled device
for an item without a label, no GPU opened for one vGPU, as little left over as possible. So what
stays free stays in large pieces. The same facts give the same host in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from laneway.core.refusals import Refusal
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.placement.domain import ANYWHERE, Domain, unavailable_because
from laneway.core.vsphere.placement.explain import explain_refusal
from laneway.core.vsphere.placement.host_fit import HostFit, fit_on_host
from laneway.core.vsphere.placement.reservation import Reservation, by_host
from laneway.core.vsphere.spec.requests import Requested

__all__ = ["ANYWHERE", "Domain", "choose_host", "still_fits"]


def choose_host(
    hosts: Sequence[Host],
    requested: Requested,
    reservations: Sequence[Reservation],
    *,
    domain: Domain = ANYWHERE,
    excluded: Collection[str] = (),
    machine: str = "",
) -> Reservation | Refusal:
    """Where a machine is to be, or why it cannot be anywhere.

    `excluded`: refs of hosts on which vCenter could not start it. `machine`: what it has reserved
    already does not stand in its way.
    """
    kept = by_host(hosts, reservations, machine)
    best: tuple[tuple[int, int, int], str, str, HostFit] | None = None
    for host in hosts:
        if not domain.has(host) or unavailable_because(host, requested, excluded):
            continue
        found = fit_on_host(host, requested, kept.get(host.ref, ()))
        if found is None:
            continue
        rank = (found.cost, host.name, host.ref, found)
        if best is None or rank[:3] < best[:3]:
            best = rank
    if best is None:
        return explain_refusal(hosts, requested, kept, domain=domain, excluded=excluded)
    return Reservation(machine, best[2], best[3].allocations)


def still_fits(
    hosts: Sequence[Host],
    reservation: Reservation,
    reservations: Sequence[Reservation],
    *,
    domain: Domain = ANYWHERE,
    excluded: Collection[str] = (),
) -> bool:
    """Whether a reservation can still be kept where it is; for a VM that is off."""
    requested = Requested(tuple(allocation.request for allocation in reservation.allocations))
    host = next((one for one in hosts if one.ref == reservation.host), None)
    if host is None or not domain.has(host) or unavailable_because(host, requested, excluded):
        return False
    # Of all hosts it is known where VMs are on; of the reservations only those of this one matter.
    there = [one for one in reservations if one.host == host.ref]
    kept = by_host(hosts, there, reservation.machine).get(host.ref, ())
    return fit_on_host(host, requested, kept) is not None
