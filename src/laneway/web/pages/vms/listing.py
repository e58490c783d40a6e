"""The list of VMs: what each requests and what it has, side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laneway.core.phrases import line
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.views import vms
from laneway.views.order import natural
from laneway.views.vms import Vm
from laneway.web.access import question
from laneway.web.caches import Change
from laneway.web.judged import world_of
from laneway.web.page import Context, Page
from laneway.web.pages.vms import seen
from laneway.web.pages.vms.resources import kind_of, url_of
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


def _table(visit: Visit, found: Sequence[Vm]) -> Table[Vm]:
    texts = visit.texts
    world = world_of(visit)

    def resources(one: Vm) -> tuple[str, ...]:
        return tuple(vms.requests(one.spec.domain.devices.all))

    def options(values: set[str]) -> list[Option]:
        return [Option(value, value) for value in sorted(values - {""}, key=natural)]

    def by(id_: str, value: Callable[[Vm], str]) -> Filter[Vm]:
        return Filter(
            id_,
            texts(f"vms.{id_}"),
            values=lambda one: (value(one),),
            options=lambda: options({value(one) for one in found}),
            groups=True,
        )

    return Table(
        columns=[
            Column("state", texts("vms.state"), order=lambda one: one.state),
            Column("name", texts("vms.name"), order=lambda one: natural(one.name)),
            Column("namespace", texts("vms.namespace"), order=lambda one: natural(one.namespace)),
            Column("node", texts("vms.node"), order=lambda one: natural(one.node)),
            Column("requests", texts("vms.requests")),
            Column("has", texts("vms.has")),
        ],
        key=lambda one: f"{one.namespace}/{one.name}",
        text=lambda one: " ".join((one.namespace, one.name, one.node, *resources(one))),
        order=lambda one: (natural(one.namespace), natural(one.name)),
        filters=[
            by("namespace", lambda one: one.namespace),
            by("state", lambda one: one.state),
            by("node", lambda one: one.node),
            Filter(
                "resource",
                texts("vms.resource"),
                values=resources,
                options=lambda: [
                    Option(one.value, line(kind_of(one.value, world).title))
                    for one in options({name for one in found for name in resources(one)})
                ],
            ),
        ],
    )


def _context(visit: Visit) -> Context:
    found = seen.all_seen(visit)
    table = _table(visit, found).view(found, visit.place)
    world, ledger = world_of(visit), visit.ledger
    shown = frozenset(table.shown)

    def concerns(change: Change) -> bool:
        if change.kind in ("vms", "instances"):
            # A VM that appears, leaves or moves among others changes the numbers as well.
            return change.before is None or change.after is None or str(change.key) in shown
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
