"""vGPU devices: every function that carries a vGPU or can carry one.

The filter by GPU has the name of Harvester's query, `parentSriov`, and takes the same value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from laneway.api import VGPUDevice
from laneway.kube.resource import served
from laneway.views.gpus import node_of
from laneway.web import holders
from laneway.web.access import question
from laneway.web.caches import LEDGER, NODE, Caches, Change
from laneway.web.page import Context, Page
from laneway.web.pages.gpus.states import ordered
from laneway.web.pages.vgpus.rows import KINDS, STATES, Row, Source
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import FEW, Column, Filter, Option, Table, View, concerns_rows
from laneway.web.visit import Site, Visit

VGPUS = served(VGPUDevice)
LIST, PATCH = question("list", VGPUS), question("patch", VGPUS)
PARENT = "parentSriov"
KINDS_READ = frozenset({"vgpus", "gpus", "pci", "nodes", "layouts", LEDGER.kind})


def _place(row: Row) -> tuple[object, ...]:
    return ordered(row.node), row.vgpu.spec.parent_gpu_device_address, row.vgpu.spec.address


def _text(row: Row) -> str:
    return f"{row.name} {row.place} {row.vgpu.spec.address} {row.board} {row.profile} {row.layout}"


def _table(site: Site, *, by_gpu: bool = False) -> Table[Row]:
    """The table; `by_gpu`: its rows are grouped by their GPU, so no row names it."""
    texts, caches = site.texts, site.caches

    @cache
    def nodes() -> Sequence[Option]:
        found = sorted(map(str, caches.vgpus.store.values(NODE)), key=ordered)
        return [Option(node, node) for node in found]

    @cache
    def parents() -> Sequence[Option]:
        names = [name for name in keep(site).values(PARENT) if name]
        if len(names) > FEW:  # They are not offered, but typed.
            return [Option(name, name) for name in names]
        return [Option(name, _gpu_title(caches, name)) for name in sorted(names, key=gpu_order)]

    @cache
    def profiles() -> Sequence[Option]:
        found = sorted(keep(site).values("profile"), key=ordered)
        return [Option(one, one) for one in found if one]

    def states() -> Sequence[Option]:
        return [Option(one, texts(f"vgpus.state_{one}")) for one in STATES]

    def gpu_order(name: str) -> tuple[object, ...]:
        found = caches.gpus.store.get(name)
        return (ordered(node_of(found)), found.spec.address) if found else (ordered(name), "")

    def chosen(
        name: str,
        value: Callable[[Row], str],
        options: Callable[[], Sequence[Option]],
        order: Callable[[str], object] = ordered,
    ) -> Filter[Row]:
        title = texts("vgpus.gpu" if name == PARENT else f"vgpus.{name}")
        return Filter(name, title, lambda row: (value(row),), options, groups=True, order=order)

    gpu = Column[Row]("gpu", texts("vgpus.gpu"), order=_place)
    return Table(
        columns=[
            Column("state", texts("vgpus.state"), order=lambda row: STATES.index(row.state.kind)),
            Column("name", texts("vgpus.function"), order=_place),
            Column("profile", texts("vgpus.profile"), order=lambda row: ordered(row.profile)),
            *(() if by_gpu else (gpu,)),
            Column("holder", texts("vgpus.holder")),
            Column("layout", texts("vgpus.layout"), order=lambda row: ordered(row.layout)),
        ],
        key=lambda row: row.name,
        text=_text,
        order=_place,
        filters=[
            chosen(PARENT, lambda row: row.gpu, parents, gpu_order),
            chosen("node", lambda row: row.node, nodes),
            chosen("state", lambda row: row.state.kind, states, STATES.index),
            chosen("profile", lambda row: row.profile, profiles),
        ],
    )


def _gpu_title(caches: Caches, name: str) -> str:
    gpu = caches.gpus.store.get(name)
    return f"{node_of(gpu)}/{gpu.spec.address}" if gpu is not None else name


def keep(site: Site) -> Rows[Row]:
    """The rows of the table; to make them takes seconds in a large cluster."""

    def made() -> Rows[Row]:
        source = Source(site.caches)
        return _table(site).rows(
            keys=[one.metadata.name for one in site.caches.vgpus.store],
            build=source.build,
            touched=source.touched,
            indexed=(PARENT, "node", "state", "profile"),
        )

    return site.rows("vgpus", made)


def _view(visit: Visit) -> View[Row]:
    table = _table(visit.site, by_gpu=visit.place.get("group") == PARENT)
    return table.view(keep(visit.site), visit.place)


def subtotals(view: View[Row], rows: Rows[Row]) -> Mapping[str, Sequence[tuple[str, int]]]:
    """How many rows there are of each state, on all pages, by the value of each group."""
    grouping = next((one for one in view.groupings if one.id == view.group), None)
    if grouping is None or grouping.id == "state":
        return {}
    shown: dict[str, Counter[str]] = {group.value: Counter() for group in view.groups}
    if view.chips:
        for entry in view.found:
            [value] = grouping.values(entry.item)
            if value in shown:
                shown[value][entry.item.state.kind] += 1
    else:
        for value, count in shown.items():
            count.update(entry.item.state.kind for entry in rows.with_value(grouping.id, value))
    return {
        value: [(state, count[state]) for state in STATES if count[state]]
        for value, count in shown.items()
    }


def _context(visit: Visit) -> Context:
    rows, view = keep(visit.site), _view(visit)
    drawn = {row.name: holders.of_vgpu(visit, row.vgpu) for row in view.rows}
    of_rows = concerns_rows(view, rows)

    def shows(change: Change) -> bool:
        if change.kind == LEDGER.kind:  # Reservations of stopped VMs are only there.
            return any(holders.of_vgpu(visit, row.vgpu) != drawn[row.name] for row in view.rows)
        return of_rows(change)

    return {
        "table": view,
        "kinds": KINDS,
        "subtotals": subtotals(view, rows),
        "holders": drawn,
        "may_patch": visit.may(PATCH),
        "concerns": shows,
    }


async def _prepare(visit: Visit) -> None:
    await holders.load(visit, [row.vgpu for row in _view(visit).rows])


PAGES = (
    Page(
        "/vgpus",
        "vgpus.html",
        _context,
        kinds=KINDS_READ,
        title="nav.vgpus",
        needs=(LIST,),
        asks=(PATCH,),
        prepare=_prepare,
    ),
)
