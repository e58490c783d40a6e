"""The list of VMs: what each requests and what it has, side by side."""

from __future__ import annotations

from laneway.core.phrases import line
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.resource import Key
from laneway.views import vms
from laneway.views.order import natural
from laneway.views.vms import Vm
from laneway.web.access import question
from laneway.web.caches import Change
from laneway.web.judged import world_of
from laneway.web.page import Context, Page
from laneway.web.pages.gpus.states import ordered
from laneway.web.pages.vms import rows, seen
from laneway.web.pages.vms.resources import kind_of, url_of
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table
from laneway.web.visit import Visit

CREATE = question("create", VIRTUAL_MACHINES)
_BAD = ("Error", "Err", "CrashLoop", "Failed", "Unschedulable", "Unknown", "DataVolumeError")
_QUIET = ("Stopped", "Paused", "Succeeded")
_GOOD = ("Running", "Ready")


def sign(state: str) -> str:
    """The sign of a state of KubeVirt's."""
    if state in _GOOD:
        return "success"
    if state in _QUIET:
        return "off"
    if any(part in state for part in _BAD):
        return "danger"
    return "working" if state else "unknown"


def _table(visit: Visit, found: Rows[Vm]) -> Table[Vm]:
    texts = visit.texts
    world = world_of(visit)

    def options(id_: str) -> list[Option]:
        values = filter(None, found.values(id_))
        return [Option(value, value) for value in sorted(values, key=ordered)]

    def by(id_: str) -> Filter[Vm]:
        title = texts(f"vms.{id_}")
        return Filter(id_, title, rows.FILTERS[id_], lambda: options(id_), groups=True)

    return Table(
        columns=[
            Column("state", texts("vms.state"), order=lambda one: one.state),
            Column("name", texts("vms.name"), order=lambda one: natural(one.name)),
            Column("namespace", texts("vms.namespace"), order=lambda one: ordered(one.namespace)),
            Column("node", texts("vms.node"), order=lambda one: ordered(one.node)),
            Column("requests", texts("vms.requests")),
            Column("has", texts("vms.has")),
        ],
        key=lambda one: Key(one.namespace, one.name),
        text=rows.text,
        order=rows.order,
        filters=[
            by("namespace"),
            by("state"),
            by("node"),
            Filter(
                "resource",
                texts("vms.resource"),
                values=rows.FILTERS["resource"],
                options=lambda: [
                    Option(one.value, line(kind_of(one.value, world).title))
                    for one in options("resource")
                ],
            ),
        ],
    )


def _context(visit: Visit) -> Context:
    found = seen.rows_seen(visit)
    table = _table(visit, found).view(found, visit.place)
    world, ledger = world_of(visit), visit.ledger

    def concerns(change: Change) -> bool:
        if change.kind in ("vms", "instances"):
            # A VM that appears, leaves or moves among others changes the numbers as well.
            return change.before is None or change.after is None or change.key in table.shown
        return True

    return {
        "table": table,
        "lines": lambda one: vms.lines(one, ledger),
        "kind": lambda resource: kind_of(resource, world),
        "device_url": lambda name: url_of(name, world),
        "sign": sign,
        "concerns": concerns,
    }


PAGE = Page(
    "/vms",
    "vms.html",
    _context,
    kinds=frozenset({"ledger", "vms", "instances"}),
    title="nav.vms",
    prepare=seen.load,
)
