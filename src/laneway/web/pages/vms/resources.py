"""What the resources that VMs request are, and which devices there are of each.

A resource is a pool of devices that are alike, or one device alone. Who takes from a pool gets any
of it, also by the name of one; so what is a pool is called one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from laneway.admission.vms.devices import find
from laneway.admission.vms.gpus import frameworks
from laneway.admission.world import MEDIATED, RESOURCE, World
from laneway.core.ledger.ledger import Entry, Ledger, Stock
from laneway.core.phrases import short_name
from laneway.kube.kubevirt import DeviceRequest, Devices
from laneway.views.order import natural
from laneway.views.vms import is_exact
from laneway.web.place import link
from laneway.web.visit import Visit

_SHOWN = 40
"""So many devices are listed to choose from; a node or a text shows others."""


class Kind(NamedTuple):
    """What a resource is."""

    resource: str
    title: str
    family: str
    """`vgpu`, `pci` or `usb`."""
    exact: bool


class Choice(NamedTuple):
    """A resource that a VM can request, and how much of it there is."""

    kind: Kind
    total: int
    free: int
    most: int
    """How many are free on the node that has the most."""
    nodes: int


class Device(NamedTuple):
    """One device that a VM can name."""

    entry: Entry
    kind: Kind
    others: int
    """How many further devices there are of its pool."""
    url: str


def world_of(visit: Visit) -> World:
    """What the rules of admission look at, as this process knows it."""
    caches = visit.caches
    return World(
        nodes=caches.nodes.store,
        pci_devices=caches.pci.store,
        claims=caches.claims.store,
        vgpus=caches.vgpus.store,
        usb_devices=caches.usb.store,
        usb_claims=caches.usb_claims.store,
        vms=caches.vms.store,
        instances=caches.instances.store,
        ledger=lambda: visit.ledger,
    )


def kind_of(resource: str, world: World, name: str = "") -> Kind:
    """What a resource is, by a device that has it; `name`: of one that is known to have it."""
    if vgpu := world.vgpus.first(RESOURCE, resource):
        profile = short_name(vgpu.status.configure_vgpu_type_name)
        return Kind(resource, profile or resource, "vgpu", exact=is_exact(resource, name))
    if usb := world.usb_devices.first(RESOURCE, resource):
        return Kind(resource, usb.status.description or resource, "usb", exact=True)
    claim = world.claims.first(RESOURCE, resource)
    own = name or (claim.metadata.name if claim is not None else "")
    pci = world.pci_devices.get(own) or world.pci_devices.first(RESOURCE, resource)
    title = pci.status.description.partition(": ")[2] if pci is not None else ""
    return Kind(resource, title or resource, "pci", exact=bool(own) and is_exact(resource, own))


def choices(ledger: Ledger, world: World) -> list[Choice]:
    """Every resource of which there are several, by family and name."""
    found = []
    for resource, homes in ledger.homes.items():
        stocks = [ledger.stocks[node, resource] for node in homes]
        first = next((one.name for stock in stocks for one in stock.devices), "")
        kind = kind_of(resource, world, first)
        if kind.exact:
            continue
        free = ledger.free.get(resource, {})
        found.append(
            Choice(
                kind,
                sum(stock.counts.total for stock in stocks),
                sum(free.values()),
                max(free.values(), default=0),
                len(homes),
            )
        )
    order = {"vgpu": 0, "pci": 1, "usb": 2}
    return sorted(found, key=lambda one: (order[one.kind.family], natural(one.kind.title)))


def devices(
    ledger: Ledger, world: World, *, node: str, text: str, chosen: Iterable[str]
) -> tuple[list[Device], bool]:
    """Devices to choose from, those that are chosen first; whether there are more."""
    wanted = frozenset(chosen)
    first: list[Device] = []
    rest: list[Device] = []
    more = False
    for stock in _in_order(ledger):
        if not wanted and more:
            break
        for entry in stock.entries():
            if entry.device.name in wanted:
                first.append(_device(entry, stock, ledger, world))
            elif not more and _matches(entry, node, text):
                more = len(rest) == _SHOWN
                if not more:
                    rest.append(_device(entry, stock, ledger, world))
    return [*first, *rest], more


def _in_order(ledger: Ledger) -> Iterator[Stock]:
    return iter(
        sorted(ledger.stocks.values(), key=lambda one: (natural(one.node), natural(one.resource)))
    )


def _matches(entry: Entry, node: str, text: str) -> bool:
    device = entry.device
    if node and device.node != node:
        return False
    return all(word in f"{device.name} {device.resource}".lower() for word in text.lower().split())


def _device(entry: Entry, stock: Stock, ledger: Ledger, world: World) -> Device:
    kind = kind_of(stock.resource, world, entry.device.name)
    pool = sum(
        ledger.stocks[node, stock.resource].counts.total for node in ledger.homes[stock.resource]
    )
    return Device(entry, kind, pool - 1, url_of(entry.device.name, world))


def url_of(name: str, world: World) -> str:
    """The page of a device; empty where there is none."""
    found = find(world, name)
    if found is None:
        return ""
    if found.vgpu is not None:
        return link("vgpus", name)
    return link("usb" if found.is_usb else "pci", name)


def requested(
    counts: Iterable[tuple[str, int]], names: Iterable[str], taken: Iterable[str], world: World
) -> Devices:
    """Entries for so many of each resource and for devices by name, in the lists of their kind.

    An entry for any device of a pool is called by what it is and a number.
    """
    used = set(taken)
    entries = []
    for resource, count in counts:
        for _ in range(count):
            name = _free_name(resource, used)
            used.add(name)
            entries.append(DeviceRequest(name=name, device_name=resource))
    for name in names:
        found = find(world, name)
        resource = found.resources[0] if found is not None and found.resources else ""
        entries.append(DeviceRequest(name=name, device_name=resource))
    gpus = [one for one in entries if _is_mediated(one, world)]
    return Devices(host_devices=[one for one in entries if one not in gpus], gpus=gpus)


def _is_mediated(request: DeviceRequest, world: World) -> bool:
    entry = {"name": request.name, "deviceName": request.device_name}
    return frameworks(entry, world) == {MEDIATED}


def _free_name(resource: str, used: set[str]) -> str:
    last = resource.rpartition("/")[2]
    short = last.removeprefix("NVIDIA_").removeprefix("GRID_").lower()
    stem = re.sub(r"[^a-z0-9]+", "-", short).strip("-")[:40] or "device"
    return next(name for n in range(1, 1000) if (name := f"{stem}-{n}") not in used)
