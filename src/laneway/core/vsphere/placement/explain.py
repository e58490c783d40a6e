"""Why a machine can be on no host: the facts of the refusals, looked for in order.

What no waiting would change comes first: no such host, no such device, no host large enough. Only
then come the devices that others hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec.structs import replace

from laneway.core.refusals import DeviceNotOffered, HostsTooSmall, NoHostInDomain, NoRoom, Refusal
from laneway.core.vgpu.profiles import MIB_PER_GIB
from laneway.core.vsphere.inventory.hosts import Host
from laneway.core.vsphere.inventory.offers import ids_shown, offered_by, shown
from laneway.core.vsphere.placement.domain import Domain, unavailable_because
from laneway.core.vsphere.placement.free import serves
from laneway.core.vsphere.placement.host_fit import fit_on_host
from laneway.core.vsphere.placement.reservation import Reservation
from laneway.core.vsphere.placement.supply import Stock, stocks, supply
from laneway.core.vsphere.placement.vgpu_fit import other_size, vgpu_size
from laneway.core.vsphere.spec.requests import (
    DeviceRequest,
    GroupRequest,
    PassthroughRequest,
    Requested,
    VgpuRequest,
)

_HOSTS = 3
"""So many hosts are looked at closely."""


def explain_refusal(
    hosts: Sequence[Host],
    requested: Requested,
    kept: Mapping[str, Sequence[Reservation]],
    *,
    domain: Domain,
    excluded: Collection[str] = (),
) -> Refusal:
    """Why there is no room for a machine, given that there is none."""
    mine = [host for host in hosts if domain.has(host)]
    if not mine:
        clusters = {host.cluster for host in hosts if host.devices or host.shared_gpus}
        return NoHostInDomain(str(domain), tuple(sorted(clusters)))
    counts = Counter(requested.devices)
    for request in counts:
        if not any(_has(host, request) for host in mine):
            nearly = [*_nearly(mine, request), *_elsewhere(hosts, domain, request)]
            return DeviceNotOffered(
                shown(request), str(domain), _offers(mine, request), tuple(nearly)
            )
    empty = [emptied(host) for host in mine]
    if not any(fit_on_host(host, requested, ()) for host in empty):
        return HostsTooSmall(
            tuple((shown(request), count) for request, count in counts.items()),
            str(domain),
            _largest(empty, counts),
        )
    there = stocks(mine, kept)
    closed = {
        host.ref: why for host in mine if (why := unavailable_because(host, requested, excluded))
    }
    return NoRoom(
        str(domain),
        tuple(
            supply(there, request, count=count, excluded=excluded)
            for request, count in counts.items()
        ),
        tuple(
            (host.name, closed[host.ref])
            for host in mine
            if host.ref in closed and any(_has(host, request) for request in counts)
        ),
        tuple(_other_sizes([one for one in there if one.host.ref not in closed], counts)),
    )


def _other_sizes(there: Sequence[Stock], counts: Collection[DeviceRequest]) -> Iterator[str]:
    """The GPUs that have memory enough, and vGPUs of another size."""
    for host, free, _, _ in there:
        for gpu, load in zip(free.shared_gpus, free.loads, strict=True):
            sizes = (
                other_size(gpu, load, one.profile) for one in counts if isinstance(one, VgpuRequest)
            )
            if mib := next(filter(None, sizes), 0):
                yield f"{gpu.id} of {host.name} has vGPUs of {mib / MIB_PER_GIB:g} GiB"


def emptied(host: Host) -> Host:
    """The host if all of its VMs were off."""
    return replace(
        host,
        devices=tuple(replace(one, holder="") for one in host.devices),
        shared_gpus=tuple(replace(one, users=()) for one in host.shared_gpus),
    )


def _offers(hosts: Sequence[Host], request: DeviceRequest) -> tuple[str, ...]:
    """The devices of the requested kind; if there are none, all devices."""
    there = offered_by(hosts)
    alike = [shown(one) for one in there if isinstance(one, type(request))]
    return tuple(alike or map(shown, there))


def _has(host: Host, request: DeviceRequest) -> bool:
    if isinstance(request, GroupRequest):
        return any(one.name == request.name for one in host.device_groups)
    if isinstance(request, VgpuRequest):
        return any(vgpu_size(gpu, request.profile) for gpu in host.shared_gpus)
    return any(one.active and serves(one, request) for one in host.devices)


def _nearly(hosts: Sequence[Host], request: DeviceRequest) -> list[str]:
    """Devices that would fit, but for their state, mode or label."""
    found = []
    for host in hosts:
        if isinstance(request, VgpuRequest):
            found += [
                f"GPU {gpu.id} of {host.name} has that profile, but is in mode {gpu.mode}"
                for gpu in host.shared_gpus
                if any(one.name == request.profile for one in gpu.profiles)
            ]
        elif isinstance(request, PassthroughRequest):
            found += [
                f"{one.id} of {host.name} matches, but passthrough is not active: "
                "enable it and restart the host"
                for one in host.devices
                if not one.active and serves(one, request)
            ]
            if request.label:
                found += [
                    f"{one.id} of {host.name} is {ids_shown(one.ids)} and "
                    + (f"labelled {one.label}" if one.label else "has no label")
                    for one in host.devices
                    if one.active and serves(one, replace(request, label=""))
                ]
    return found


def _elsewhere(hosts: Sequence[Host], domain: Domain, request: DeviceRequest) -> list[str]:
    """The clusters outside of the failure domain that have it."""
    others = (host for host in hosts if not domain.has(host) and _has(host, request))
    clusters = {str(Domain(host.datacenter, host.cluster)) for host in others}
    return [f"{cluster} has it, outside the failure domain" for cluster in sorted(clusters)]


def _largest(hosts: Sequence[Host], counts: Counter[DeviceRequest]) -> tuple[str, ...]:
    """What the hosts with the most of it have."""
    lines = []
    for host in hosts:
        have = {}
        for request, count in counts.items():
            have[request] = min(supply(stocks([host], {}), request).total, count)
        missing = sum(counts.values()) - sum(have.values())
        parts = ", ".join(f"{have[one]} of {count} x {shown(one)}" for one, count in counts.items())
        lines.append((missing, host.name, f"{host.name} has {parts}"))
    return tuple(text for _, _, text in sorted(lines)[:_HOSTS])
