"""All PCI devices.

A GPU with vGPUs has dozens of virtual functions that are of use as vGPUs only, and are on their own
page. They are left out here until a user asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from laneway.admission.world import PARENT
from laneway.api import PCIDevice, PCIDeviceClaim
from laneway.core import keys
from laneway.kube.resource import served
from laneway.web.access import question
from laneway.web.caches import NODE, Change
from laneway.web.claiming import listing
from laneway.web.claiming.rows import STATES, Row, by_name, options
from laneway.web.page import Context, Page
from laneway.web.pages.pci.family import FAMILY, row_of
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Site, Visit

LIST = question("list", served(PCIDevice))
LIST_CLAIMS = question("list", served(PCIDeviceClaim))
KINDS_READ = frozenset({"pci", "claims"})

_TYPES = {"03": "gpu", "12": "gpu", "02": "network", "01": "storage", "04": "audio", "06": "bridge"}
_USB_CONTROLLER = "0c03"
TYPES = ("gpu", "network", "storage", "usb", "audio", "bridge", "other")
"""Kinds of devices, as a user speaks of them."""


def type_of(class_id: str) -> str:
    """One of `TYPES`, by the PCI class."""
    if class_id == _USB_CONTROLLER:
        return "usb"
    return _TYPES.get(class_id[:2], "other")


def address_of(row: Row) -> str:
    if isinstance(row.device, PCIDevice):
        return row.device.status.address
    return row.claim.spec.address if isinstance(row.claim, PCIDeviceClaim) else ""


def _label(row: Row, key: str) -> str:
    return row.device.metadata.labels.get(key, "") if row.device is not None else ""


def gpu_of(row: Row) -> str:
    """The SRIOVGPUDevice that a function belongs to."""
    return _label(row, keys.LABEL_PARENT_GPU)


def card_of(row: Row) -> str:
    """The SRIOVNetworkDevice that a virtual function belongs to."""
    return _label(row, keys.LABEL_PARENT_NETWORK_DEVICE)


def _status(row: Row, field: str) -> str:
    return str(getattr(row.device.status, field)) if row.device is not None else ""


def _group(row: Row) -> int:
    number = _status(row, "iommu_group")
    return int(number) if number.isdecimal() else -1


def _text(row: Row) -> str:
    ids = f"{_status(row, 'vendor_id')}:{_status(row, 'device_id')}"
    parts = (row.name, row.node, address_of(row), row.description, ids, row.resource)
    return " ".join((*parts, _status(row, "kernel_driver_in_use"), row.claimed_by))


def _columns(site: Site) -> list[Column[Row]]:
    texts = site.texts
    return [
        Column("state", texts("claiming.state"), order=lambda row: STATES.index(row.state)),
        Column("name", texts("claiming.device"), order=lambda row: by_name(row.name)),
        Column("node", texts("claiming.node"), order=lambda row: by_name(row.node)),
        Column("driver", texts("pci.driver"), lambda row: _status(row, "kernel_driver_in_use")),
        Column("group", texts("pci.group"), order=_group, number=True),
        Column(
            "user", texts("claiming.claimed_by"), order=lambda row: (not row.claim, row.claimed_by)
        ),
        Column("resource", texts("claiming.resource"), order=lambda row: row.resource),
    ]


def _filters(site: Site, *, is_whole: bool) -> list[Filter[Row]]:
    texts, caches = site.texts, site.caches

    def descriptions() -> Sequence[Option]:
        return options(keep(site, is_whole=is_whole).values("description"))

    return [
        Filter(
            "node",
            texts("claiming.node"),
            values=lambda row: (row.node,),
            options=lambda: options(map(str, caches.pci.store.values(NODE))),
            groups=True,
        ),
        Filter(
            "type",
            texts("pci.type"),
            values=lambda row: (type_of(_status(row, "class_id")),),
            options=lambda: [Option(one, texts(f"pci.type_{one}")) for one in TYPES],
            groups=True,
        ),
        Filter(
            "description",
            texts("claiming.description"),
            values=lambda row: (row.description,),
            options=descriptions,
            groups=True,
        ),
        *listing.filters(texts),
        Filter(
            "gpu",
            texts("pci.of_gpu"),
            values=lambda row: (gpu_of(row),),
            options=lambda: options(one.metadata.name for one in caches.gpus.store),
            narrows=False,
        ),
        Filter(
            "card",
            texts("pci.of_card"),
            values=lambda row: (card_of(row),),
            options=lambda: options(one.metadata.name for one in caches.networks.store),
            narrows=False,
        ),
        Filter(
            "functions",
            texts("pci.functions"),
            values=lambda _row: ("all",),
            options=lambda: [Option("all", texts("pci.functions_shown"))],
            unset=texts("pci.functions_hidden"),
            narrows=False,
        ),
    ]


def _table(site: Site, *, is_whole: bool = False) -> Table[Row]:
    return Table(
        columns=_columns(site),
        key=lambda row: row.name,
        text=_text,
        order=lambda row: (by_name(row.node), address_of(row)),
        filters=_filters(site, is_whole=is_whole),
    )


def keep(site: Site, *, is_whole: bool = False) -> Rows[Row]:
    """Kept, because a cluster can have a hundred thousand; with functions of GPUs if need be."""
    caches = site.caches
    devices, claims = caches.pci.store, caches.claims.store

    def build(name: str) -> Row | None:
        found = row_of(caches, name)
        return found if found and (is_whole or not _is_function_of_gpu(found)) else None

    def touched(change: Change) -> tuple[str, ...]:
        return (change.key.name,) if change.kind in KINDS_READ else ()

    def make() -> Rows[Row]:
        names = {one.metadata.name: None for store in (devices, claims) for one in store}
        indexed = ["node", "type", "description", "state", "claim"]
        return _table(site).rows(keys=names, build=build, touched=touched, indexed=indexed)

    return site.rows("pci functions" if is_whole else "pci", make)


def _functions(visit: Visit, gpu: str, card: str) -> list[Row]:
    """The virtual functions of a GPU and those of a network card, where both are chosen."""
    devices, cards = visit.caches.pci.store, visit.caches.networks.store
    found = [one.metadata.name for one in devices.by(PARENT, gpu)] if gpu else []
    if (chosen := cards.get(card)) is not None:
        found += chosen.status.vf_pci_devices
    return [row for name in dict.fromkeys(found) if (row := row_of(visit.caches, name))]


def _is_function_of_gpu(row: Row) -> bool:
    """Of a claim whose device has gone, by the VGPUDevice that it was made for."""
    if isinstance(row.device, PCIDevice):
        return bool(row.device.status.physical_function and gpu_of(row))
    return bool(row.vgpu)


def _context(visit: Visit) -> Context:
    place = visit.place
    is_whole = bool(place.get("functions"))
    table = _table(visit.site, is_whole=is_whole)
    gpu, card = place.get("gpu"), place.get("card")
    if gpu or card:
        rows = table.rows(_functions(visit, gpu, card))
        view = table.view(rows, place)
        concerns = _of_functions(rows, gpu, card)
    else:
        rows = keep(visit.site, is_whole=is_whole)
        view = table.view(rows, place)
        concerns = concerns_rows(view, rows)
    return {
        **listing.shown(visit, FAMILY, view, rows),
        "address": address_of,
        "concerns": concerns,
    }


def _of_functions(rows: Rows[Row], gpu: str, card: str) -> Callable[[Change], bool]:
    """Whether a change is about functions of this GPU or card."""
    names = {entry.key for entry in rows.all()}

    def shows(change: Change) -> bool:
        if change.kind == "networks":
            return change.key.name == card
        if change.key.name in names:
            return True
        return change.kind == "pci" and _labels(change.after).get(keys.LABEL_PARENT_GPU) == gpu

    return shows


def _labels(device: PCIDevice | None) -> Mapping[str, str]:
    return device.metadata.labels if device is not None else {}


async def _prepare(visit: Visit) -> None:
    await listing.load(visit, _context(visit)["table"])


PAGES = (
    Page(
        "/pci",
        "pci.html",
        _context,
        kinds=KINDS_READ | {"networks"},
        title="nav.pci",
        needs=(LIST, LIST_CLAIMS),
        asks=FAMILY.rights,
        prepare=_prepare,
    ),
)
