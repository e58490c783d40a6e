"""One USB device: where it is, its claim, and what to do when it has been unplugged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laneway.api import USBDevice, USBDeviceClaim
from laneway.core import ids, names
from laneway.core.pci import pci_address
from laneway.views.gpus import staleness
from laneway.web.caches import Change
from laneway.web.claiming import change
from laneway.web.claiming.family import refused
from laneway.web.claiming.rows import Row, load_users, speaks_of, users, why
from laneway.web.page import Context, NotFound, Page
from laneway.web.pages.usb.family import FAMILY, identity_of, port_of, row_of, successors
from laneway.web.pages.usb.listing import LIST, LIST_CLAIMS, seat_of
from laneway.web.visit import Visit


def named(visit: Visit) -> Row:
    """The device that the address names. Raises NotFound."""
    row = row_of(visit.caches, visit.name("name"))
    if row is None:
        raise NotFound(visit.name("name"))
    return row


def _context(visit: Visit) -> Context:
    row = named(visit)
    return {
        "title": row.name,
        "row": row,
        "stale": staleness(visit.caches.nodes.store.get(row.node)),
        "why": why(row),
        "against": refused(visit, row, release=row.claim is not None),
        "claim_url": change.address_of(FAMILY, "claim", [row]),
        "release_url": change.address_of(FAMILY, "release", [row]),
        "users": users(visit, row),
        "successors": successors(visit, row)
        if row.state == "gone" and row.claim is not None
        else [],
        "port": port_of,
        "facts": list(_facts(visit, row)),
        "controller": _controller(row),
        "concerns": lambda found: _shows(row, found),
    }


def _shows(row: Row, change_: Change) -> bool:
    found, name = change_.after or change_.before, change_.key.name
    if change_.kind in ("usb", "usb_claims"):
        return name == row.name or bool(found.status.node_name == row.node)
    if change_.kind == "claims":
        return bool(found.spec.node_name == row.node)
    if change_.kind == "nodes":
        return name == row.node
    return speaks_of(change_, [row.name])


def _controller(row: Row) -> str:
    """The PCIDevice that it is plugged into."""
    found = row.device or row.claim
    if not isinstance(found, USBDevice | USBDeviceClaim):
        return ""
    address = pci_address(found.status.pci_address)
    return names.pci_object_name(row.node, address) if address is not None else ""


def _facts(visit: Visit, row: Row) -> Iterator[tuple[str, Sequence[str]]]:
    texts = visit.texts
    vendor, product, serial = identity_of(row)
    yield texts("usb.vendor"), [f"{vendor}  {ids.usb_vendor(vendor)}".strip()]
    yield texts("usb.product"), [f"{product}  {ids.usb_product(vendor, product)}".strip()]
    yield texts("usb.serial"), [serial or texts("usb.no_serial")]
    if isinstance(row.device, USBDevice):
        yield texts("usb.class"), [row.device.status.class_type]
    yield texts("usb.port"), [port_of(row)]
    if (seat := seat_of(row)) is not None:
        yield texts("usb.seat"), [texts("usb.seat_of", bus=seat[0], number=seat[1])]


async def _prepare(visit: Visit) -> None:
    await load_users(visit, [named(visit)])


PAGES = (
    Page(
        "/usb/{name}",
        "usb-one.html",
        _context,
        kinds=frozenset({"usb", "usb_claims", "claims", "vms", "instances", "nodes"}),
        needs=(LIST, LIST_CLAIMS),
        asks=FAMILY.rights,
        prepare=_prepare,
    ),
)
