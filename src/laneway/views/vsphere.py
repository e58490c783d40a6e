"""The devices of vSphere's hosts: every device with its holder, and sums by cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

import msgspec

from laneway.api import find_condition
from laneway.api.vsphere import VCenter, VSphereHost, VSphereReservation
from laneway.controllers.ledger.vsphere import host_of, machine_name, reservation_of, type_of
from laneway.core.vsphere.inventory.hosts import Device, Host, SharedGpu
from laneway.core.vsphere.placement.capacity import Capacity, capacity, domains
from laneway.core.vsphere.placement.domain import unavailable_because
from laneway.core.vsphere.placement.free import FreeDevices, free_on_host, owed
from laneway.core.vsphere.placement.reservation import Reservation, by_host
from laneway.core.vsphere.placement.vgpu_fit import vgpus_left
from laneway.core.vsphere.spec.requests import Requested
from laneway.views.order import natural

PASSTHROUGH = "passthrough"
_SHARED = "shared"


class Site(msgspec.Struct, frozen=True):
    """One vCenter, as its objects tell it."""

    name: str
    vcenter: VCenter | None
    hosts: tuple[Host, ...]
    reservations: tuple[Reservation, ...]
    machines: Mapping[str, str]
    """VSphereVMs by the refs of their VMs."""
    only: str = ""
    """Show this cluster only."""

    def has(self, cluster: str) -> bool:
        return any(host.cluster == cluster for host in self.hosts)

    def shown(self) -> list[Host]:
        """The hosts to show, cluster by cluster."""
        hosts = [host for host in self.hosts if self.only in ("", host.cluster)]
        return sorted(hosts, key=lambda host: (_cluster(host), natural(host.name)))

    def who(self, vm: str) -> str:
        return self.machines.get(vm, vm)


class Line(NamedTuple):
    """One device, GPU or device group of a host."""

    device: str
    what: str
    mode: str
    label: str
    used_by: str
    notes: tuple[str, ...] = ()


class HostDevices(NamedTuple):
    """What a host has."""

    title: str
    host: Host
    lines: tuple[Line, ...]


class Sum(NamedTuple):
    """How much of one kind of device a cluster has."""

    what: str
    kind: str
    total: int
    in_use: int
    reserved: int
    free: int


class ClusterSums(NamedTuple):
    """What a cluster has."""

    title: str
    sums: tuple[Sum, ...]


def sites(
    vcenters: Iterable[VCenter],
    hosts: Iterable[VSphereHost],
    reservations: Iterable[VSphereReservation],
) -> list[Site]:
    """All vCenters that an object, a host or a reservation names."""
    of_hosts, of_machines = list(hosts), list(reservations)
    named = {one.metadata.name: one for one in vcenters}
    names = named.keys() | {host.spec.vcenter for host in of_hosts}
    return [
        Site(
            name=name,
            vcenter=named.get(name),
            hosts=tuple(host_of(host) for host in of_hosts if host.spec.vcenter == name),
            reservations=tuple(
                reservation_of(one) for one in of_machines if one.spec.vcenter == name
            ),
            machines={
                one.status.vm: machine_name(one.metadata)
                for one in of_machines
                if one.spec.vcenter == name and one.status.vm
            },
        )
        for name in sorted(names, key=natural)
    ]


def heading(site: Site) -> str:
    """`vCenter main (vc.example.com, 8.0.3): Following …`."""
    if site.vcenter is None:
        return f"vCenter {site.name} (of a VSphereCluster)"
    ready = find_condition(site.vcenter.status.conditions, "Ready")
    about = ", ".join(filter(None, (site.vcenter.spec.server, site.vcenter.status.version)))
    said = "no manager with --vsphere reports on it" if ready is None else ready.message
    state = "" if ready is not None and ready.status == "True" else f": {said}"
    return f"vCenter {site.name} ({about}){state}"


def _cluster(host: Host) -> str:
    return f"{host.datacenter}/{host.cluster}"


def devices(site: Site) -> Iterator[HostDevices]:
    """What every host has."""
    kept = by_host(site.hosts, site.reservations)
    for cluster, hosts in groupby(site.shown(), key=_cluster):
        for host in hosts:
            reservations = list(kept.get(host.ref, ()))
            why = unavailable_because(host, Requested())
            skipped = f" ({why}: nothing on it is allocated)" if why else ""
            title = f"{cluster}, host {host.name}{skipped}"
            yield HostDevices(title, host, tuple(_lines(site, host, reservations)))


def _lines(site: Site, host: Host, reservations: list[Reservation]) -> Iterator[Line]:
    reserved_for = _reserved(host, reservations)
    free = free_on_host(host, reservations)
    for device in sorted(host.devices, key=lambda one: one.id):
        users = _users(site, device, reserved_for)
        mode = PASSTHROUGH if device.active else f"{PASSTHROUGH}, not active"
        yield Line(device.id, device.name or _ids(device), mode, device.label, users)
    for gpu in sorted(host.shared_gpus, key=lambda one: one.id):
        mode = f"{_SHARED}, {gpu.mode}" if gpu.mode else _SHARED
        if not host.shared_direct:
            mode += ", not by default"
        used = _gpu_users(site, gpu, reserved_for)
        yield Line(gpu.id, gpu.name, mode, "", used, tuple(_gpu_notes(gpu, free)))
    for group in sorted(host.device_groups, key=lambda one: one.name):
        parts = ", ".join(part.name for part in group.parts)
        yield Line(group.name, group.description or parts, "device group", "", "")


def _ids(device: Device) -> str:
    return f"{device.ids.vendor:04x}:{device.ids.device:04x}"


def _reserved(host: Host, reservations: list[Reservation]) -> dict[str, Counter[tuple[str, str]]]:
    """Machines and profiles by the device or GPU that is kept for them."""
    found: dict[str, Counter[tuple[str, str]]] = {}
    for reservation in reservations:
        for unit, at in owed(host, reservation):
            profile = getattr(unit, "profile", "")
            found.setdefault(at, Counter())[reservation.machine, profile] += 1
    return found


def _users(site: Site, device: Device, reserved_for: dict[str, Counter[tuple[str, str]]]) -> str:
    names = [site.who(device.holder)] if device.holder else []
    names += [f"{machine} (reserved)" for machine, _ in reserved_for.get(device.id, ())]
    return ", ".join(names)


def _gpu_users(
    site: Site, gpu: SharedGpu, reserved_for: dict[str, Counter[tuple[str, str]]]
) -> str:
    tally = Counter((site.who(user.vm), user.profile or "?") for user in gpu.users)
    names = [f"{who}: {count} x {profile}" for (who, profile), count in sorted(tally.items())]
    names += [
        f"{machine}: {count} x {profile} (reserved)"
        for (machine, profile), count in sorted(reserved_for.get(gpu.id, Counter()).items())
    ]
    return ", ".join(names)


def room(gpu: SharedGpu, free: FreeDevices) -> dict[str, int]:
    """How many more vGPUs of each profile a GPU takes."""
    load = next(
        load for one, load in zip(free.shared_gpus, free.loads, strict=True) if one.id == gpu.id
    )
    return {one.name: vgpus_left(gpu, load, one.name) for one in gpu.profiles}


def _gpu_notes(gpu: SharedGpu, free: FreeDevices) -> Iterator[str]:
    fits = {name: count for name, count in room(gpu, free).items() if count}
    names = sorted(fits, key=natural)
    if names:
        each = " (each alone)" if len(names) > 1 else ""
        yield "room for " + ", ".join(f"{fits[name]} x {name}" for name in names) + each
    else:
        yield "no room for another vGPU"


def _capacities(site: Site) -> Iterator[Capacity]:
    for domain in domains(site.shown()):
        yield capacity(site.hosts, site.reservations, domain)


def capacities(site: Site) -> Iterator[ClusterSums]:
    """Sums for every cluster, and the hosts that do not count."""
    for found in _capacities(site):
        sums = tuple(
            Sum(
                kind.supply.what,
                type_of(kind.request),
                kind.supply.total,
                _sum(kind.supply.in_use),
                _sum(kind.supply.reserved_for),
                kind.supply.free,
            )
            for kind in found.kinds
        )
        skipped = ", ".join(f"{host} ({why})" for host, why in found.skipped)
        left_out = f"; nothing is free on {skipped}" if skipped else ""
        yield ClusterSums(f"{found.domain}, {found.hosts} hosts{left_out}", sums)


def _sum(tally: tuple[tuple[str, int], ...]) -> int:
    return sum(count for _, count in tally)


def plain(site: Site) -> dict[str, Any]:
    """The same for programs."""
    ready = site.vcenter and find_condition(site.vcenter.status.conditions, "Ready")
    return {
        "name": site.name,
        "server": site.vcenter.spec.server if site.vcenter else "",
        "version": site.vcenter.status.version if site.vcenter else "",
        "ready": bool(ready and ready.status == "True"),
        "message": ready.message if ready else "",
        "clusters": [_plain_cluster(site, found) for found in _capacities(site)],
    }


def _plain_cluster(site: Site, found: Capacity) -> dict[str, Any]:
    kept = by_host(site.hosts, site.reservations)
    return {
        "datacenter": found.domain.datacenter,
        "cluster": found.domain.cluster,
        "capacity": [
            {
                "what": kind.supply.what,
                "type": type_of(kind.request),
                "name": kind.name,
                "total": kind.supply.total,
                "inUse": _sum(kind.supply.in_use),
                "reserved": _sum(kind.supply.reserved_for),
                "free": kind.supply.free,
            }
            for kind in found.kinds
        ],
        "skipped": [{"host": host, "reason": why} for host, why in found.skipped],
        "hosts": [
            _plain_host(site, host, list(kept.get(host.ref, ())))
            for host in site.shown()
            if found.domain.has(host)
        ],
    }


def _plain_host(site: Site, host: Host, reservations: list[Reservation]) -> dict[str, Any]:
    reserved_for, free = _reserved(host, reservations), free_on_host(host, reservations)
    return {
        "host": host.name,
        "ref": host.ref,
        "connected": host.connected,
        "maintenance": host.maintenance,
        "devices": [
            {
                "id": one.id,
                "name": one.name,
                "vendorId": one.ids.vendor,
                "deviceId": one.ids.device,
                "label": one.label,
                "active": one.active,
                "usedBy": site.who(one.holder),
                "reservedFor": [machine for machine, _ in reserved_for.get(one.id, ())],
            }
            for one in host.devices
        ],
        "boards": [
            {
                "id": one.id,
                "name": one.name,
                "mode": one.mode,
                "users": [
                    {"machine": site.who(user.vm), "profile": user.profile} for user in one.users
                ],
                "reservedFor": [
                    {"machine": machine, "profile": profile, "count": count}
                    for (machine, profile), count in reserved_for.get(one.id, Counter()).items()
                ],
                "free": room(one, free),
            }
            for one in host.shared_gpus
        ],
    }
