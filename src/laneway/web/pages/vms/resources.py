"""What the resources that VMs request are, and which devices there are of each.

A resource is a pool of devices that are alike, or one device alone. Who takes from a pool gets any
of it, also by the name of one; so what is a pool is called one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
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
from laneway.web.problems import LISTS
from laneway.web.visit import Visit

_SHOWN = 40
"""So many devices are listed to choose from; a node or a text shows others."""
FAMILIES = {"vgpu": LISTS["vgpus"], "pci": LISTS["pci"], "usb": LISTS["usb"]}
"""The right to see the devices of a family."""
LIST_NODES = LISTS["nodes"]


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


def families(visit: Visit) -> frozenset[str]:
    """Whose devices the user may list, as `Kind.family` calls them."""
    return frozenset(name for name, asked in FAMILIES.items() if visit.may(asked))


def choices(ledger: Ledger, world: World, seen: frozenset[str]) -> list[Choice]:
    """Every resource of which there are several, of families that are seen, by family and name."""
    found = []
    for resource, homes in ledger.homes.items():
        stocks = [ledger.stocks[node, resource] for node in homes]
        first = next((one.name for stock in stocks for one in stock.devices), "")
        kind = kind_of(resource, world, first)
        if kind.exact or kind.family not in seen:
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
    ledger: Ledger,
    world: World,
    seen: frozenset[str],
    *,
    node: str,
    text: str,
    chosen: Iterable[str],
) -> tuple[list[Device], bool]:
    """Devices of families that are seen, those that are chosen first; whether there are more."""
    names = dict.fromkeys(chosen)
    if not seen:
        return [], False
    first = [(stock, name) for name in names if (stock := _stock_of(name, ledger, world))]
    rest: Iterator[tuple[Stock, str]] = (
        one for one in _matching(ledger, node, text.lower().split()) if one[1] not in names
    )
    if len(seen) < len(FAMILIES):
        known: dict[str, bool] = {}

        def is_seen(one: tuple[Stock, str]) -> bool:
            resource = one[0].resource
            if resource not in known:
                known[resource] = kind_of(resource, world, one[1]).family in seen
            return known[resource]

        first, rest = list(filter(is_seen, first)), filter(is_seen, rest)
    listed = [*first, *islice(rest, _SHOWN + 1)]
    more = len(listed) - len(first) > _SHOWN
    if more:
        listed.pop()
    return [_device(*one, ledger, world) for one in listed], more


def _stock_of(name: str, ledger: Ledger, world: World) -> Stock | None:
    found = find(world, name)
    if found is None:
        return None
    stocks = (ledger.stocks.get((found.node, one)) for one in found.resources)
    return next((one for one in stocks if one and any(d.name == name for d in one.devices)), None)


def _matching(ledger: Ledger, node: str, words: Sequence[str]) -> Iterator[tuple[Stock, str]]:
    """There may be a hundred thousand, so nothing is made of those that do not match."""
    for stock in ledger.stocks.values():
        if node and stock.node != node:
            continue
        left = [word for word in words if word not in stock.resource.lower()]
        for device in stock.devices:
            for word in left:
                if word not in device.name:
                    break
            else:
                yield stock, device.name


def _device(stock: Stock, name: str, ledger: Ledger, world: World) -> Device:
    entry = next(one for one in stock.entries() if one.device.name == name)
    kind = kind_of(stock.resource, world, name)
    pool = sum(
        ledger.stocks[node, stock.resource].counts.total for node in ledger.homes[stock.resource]
    )
    return Device(entry, kind, pool - 1, url_of(name, world))


def url_of(name: str, world: World) -> str:
    """The page of a device; empty where there is none."""
    found = find(world, name)
    if found is None:
        return ""
    if found.vgpu is not None:
        return link("vgpus", name)
    return link("usb" if found.is_usb else "pci", name)


def resource_of(name: str, world: World) -> str:
    """By what a VM requests a device; empty where there is no such device."""
    found = find(world, name)
    return found.resources[0] if found is not None and found.resources else ""


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
    entries += [
        DeviceRequest(name=name, device_name=resource)
        for name in names
        if (resource := resource_of(name, world))
    ]
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
