"""All USB devices, and the claims of those that are not plugged in any more."""

from __future__ import annotations

from laneway.api import USBDevice, USBDeviceClaim
from laneway.kube.resource import served
from laneway.views.order import natural
from laneway.web.access import question
from laneway.web.caches import NODE, Change
from laneway.web.claiming import listing
from laneway.web.claiming.rows import STATES, Row, by_name, options
from laneway.web.page import Context, Page
from laneway.web.pages.usb.family import FAMILY, identity_of, port_of, row_of
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Table, concerns_rows
from laneway.web.visit import Visit

LIST = question("list", served(USBDevice))
LIST_CLAIMS = question("list", served(USBDeviceClaim))
KINDS_READ = frozenset({"usb", "usb_claims"})


def class_of(row: Row) -> str:
    return row.device.status.class_type if isinstance(row.device, USBDevice) else ""


def seat_of(row: Row) -> tuple[int, int] | None:
    """Bus and number now, as the path of the device node has them."""
    path = row.device.status.device_path if isinstance(row.device, USBDevice) else ""
    bus, _, number = path.removeprefix("/dev/bus/usb/").partition("/")
    return (int(bus), int(number)) if bus.isdecimal() and number.isdecimal() else None


def _text(row: Row) -> str:
    parts = (row.name, row.node, row.description, *identity_of(row), port_of(row))
    return " ".join((*parts, row.claimed_by, class_of(row)))


def _table(visit: Visit) -> Table[Row]:
    texts, caches = visit.texts, visit.caches
    return Table(
        columns=[
            Column("state", texts("claiming.state"), lambda row: STATES.index(row.state)),
            Column("name", texts("claiming.device"), lambda row: by_name(row.name)),
            Column("node", texts("claiming.node"), lambda row: by_name(row.node)),
            Column("port", texts("usb.port"), lambda row: natural(port_of(row))),
            Column("serial", texts("usb.serial"), lambda row: identity_of(row).serial),
            Column(
                "user",
                texts("claiming.claimed_by"),
                lambda row: (row.claim is None, row.claimed_by),
            ),
        ],
        key=lambda row: row.name,
        text=_text,
        order=lambda row: (by_name(row.node), natural(port_of(row))),
        filters=[
            Filter(
                "node",
                texts("claiming.node"),
                values=lambda row: (row.node,),
                options=lambda: options(map(str, caches.usb.store.values(NODE))),
                groups=True,
            ),
            Filter(
                "description",
                texts("claiming.description"),
                values=lambda row: (row.description,),
                options=lambda: options(_rows(visit).values("description")),
                groups=True,
            ),
            Filter(
                "class",
                texts("usb.class"),
                values=lambda row: (class_of(row),),
                options=lambda: options(filter(None, _rows(visit).values("class"))),
                groups=True,
            ),
            *listing.filters(texts),
        ],
    )


def _rows(visit: Visit) -> Rows[Row]:
    caches = visit.caches
    devices, claims = caches.usb.store, caches.usb_claims.store

    def touched(change: Change) -> tuple[str, ...]:
        return (change.key.name,) if change.kind in KINDS_READ else ()

    def make() -> Rows[Row]:
        names = {one.metadata.name: None for store in (devices, claims) for one in store}
        indexed = ["node", "description", "class", "state", "claim"]
        return _table(visit).rows(
            keys=names, build=lambda name: row_of(caches, name), touched=touched, indexed=indexed
        )

    return visit.site.rows("usb", make)


def _context(visit: Visit) -> Context:
    rows = _rows(visit)
    view = _table(visit).view(rows, visit.place)
    return {
        **listing.shown(visit, FAMILY, view, rows),
        "identity": identity_of,
        "port": port_of,
        "seat": seat_of,
        "class_of": class_of,
        "concerns": concerns_rows(view, rows),
    }


async def _prepare(visit: Visit) -> None:
    await listing.load(visit, _context(visit)["table"])


PAGES = (
    Page(
        "/usb",
        "usb.html",
        _context,
        kinds=KINDS_READ,
        title="nav.usb",
        needs=(LIST, LIST_CLAIMS),
        asks=FAMILY.rights,
        prepare=_prepare,
    ),
)
