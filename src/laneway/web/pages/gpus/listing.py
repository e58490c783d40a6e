"""The list of GPUs: a tree of nodes and their GPUs, with what each carries and what still fits.

Only what the rows of one page show is put together from all kinds: of the others, the GPU's own
object and the name of its board are enough to filter and sort by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from laneway.api import SRIOVGPUDevice
from laneway.kube.resource import served
from laneway.views import memory
from laneway.views.gpus import Gpu
from laneway.views.profiles import alternatives, counts
from laneway.views.state import layout_state, mode, state
from laneway.web.access import question
from laneway.web.caches import NODE, Change, parent_of
from laneway.web.page import Action, Context, Page
from laneway.web.pages.gpus import drawing, gates
from laneway.web.pages.gpus.reading import gpus_of
from laneway.web.pages.gpus.rows import Row, kept
from laneway.web.pages.gpus.states import (
    KINDS,
    MODES,
    STATES,
    entries,
    is_settled,
    ordered,
)
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Visit

LIST = question("list", served(SRIOVGPUDevice))
KINDS_READ = frozenset(
    {"gpus", "vgpus", "pci", "migs", "claims", "layouts", "nodes", "device_nodes"}
)


def table_of(visit: Visit, boards: Iterable[str] = ()) -> Table[Row]:
    """The table of GPUs."""
    texts = visit.texts
    by_node = (visit.place.get("group") or "node") == "node"

    def all_boards() -> Sequence[Option]:
        return [Option(one, one) for one in sorted({*boards} - {""})]

    def nodes() -> Sequence[Option]:
        names = sorted(map(str, visit.caches.gpus.store.values(NODE)), key=ordered)
        return [Option(name, name) for name in names]

    node = Column[Row]("node", texts("gpus.node"), order=lambda row: row.place[0])
    return Table(
        columns=[
            Column("address", texts("gpus.gpu"), order=lambda row: row.place),
            *(() if by_node else (node,)),
            Column("state", texts("gpus.state"), order=lambda row: STATES.index(row.state)),
            Column("mode", texts("gpus.mode"), order=lambda row: row.mode),
            Column("vgpus", texts("gpus.vgpus"), order=lambda row: row.vgpus, number=True),
            Column("memory", texts("gpus.memory")),
            Column("fits", texts("gpus.fits")),
        ],
        key=lambda row: row.device.metadata.name,
        text=lambda row: row.text,
        order=lambda row: row.place,
        group="node",
        filters=[
            _filter("node", texts("gpus.node"), lambda row: row.node, nodes),
            _filter("state", texts("gpus.state"), lambda row: row.state, _states(visit)),
            _filter("mode", texts("gpus.mode"), lambda row: row.mode, _modes),
            _filter("board", texts("gpus.board"), lambda row: row.board, all_boards),
        ],
    )


def _filter(
    name: str, title: str, value: Callable[[Row], str], options: Callable[[], Sequence[Option]]
) -> Filter[Row]:
    return Filter(name, title, lambda row: (value(row),), options, groups=True)


def _states(visit: Visit) -> Callable[[], Sequence[Option]]:
    return lambda: [Option(one, visit.texts(f"gpus.state_{one}")) for one in STATES]


def _modes() -> Sequence[Option]:
    return [Option(mode, mode) for mode in MODES]


def context(visit: Visit) -> Context:
    """What the list shows."""
    rows = kept(visit.site, table_of(visit))
    view = table_of(visit, rows.values("board")).view(rows, visit.place)
    gpus = gpus_of(visit.caches, [row.device for row in view.rows])
    by_name = {gpu.name: gpu for gpu in gpus}
    places = {f"{gpu.node}/{gpu.address}" for gpu in gpus}
    missing = gates.lacks(visit, (entry.item for entry in rows.all()))

    of_rows = concerns_rows(view, rows)

    def shows(change: Change) -> bool:
        is_beside = _is_of(change, view.shown, places) or gates.of_change(change)
        return is_beside or of_rows(change)

    return {
        "table": view,
        "gpus": by_name,
        "lacks": missing[: gates.SHOWN],
        "more_lacks": max(0, len(missing) - gates.SHOWN),
        "lacking": {one.node for one in missing},
        "kinds": KINDS,
        "mode": mode,
        "state": state,
        "notes": notes,
        "allocated": memory.allocated,
        "room": lambda gpu: alternatives(gpu.device.status.fits),
        "carried": lambda gpu: counts(gpu.device.status.configured),
        "strip": lambda gpu: drawing.strip(visit, gpu),
        "concerns": shows,
    }


def notes(gpu: Gpu) -> list[str]:
    """Why it is not as desired, in the words of its agent."""
    found = []
    if gpu.stale:
        found.append(gpu.stale)
    answer = gpu.ready
    if answer is not None and answer.status != "True" and answer.message:
        found.append(answer.message)
    found += [
        f"VGPULayout {layout.metadata.name}: {layout_state(layout, entry)}"
        for layout, entry in entries(gpu)
        if not is_settled(layout, entry)
    ]
    return found


def _is_of(change: Change, shown: frozenset[Any], places: set[str]) -> bool:
    """Whether a change is one of what the rows show besides the GPUs' own objects."""
    found = change.after or change.before
    if change.kind == "vgpus":
        return parent_of(found) in places
    if change.kind == "pci":
        return change.key.name in shown
    if change.kind == "migs":
        return f"{found.spec.node_name}/{found.spec.gpu_address}" in places
    if change.kind == "claims":
        return f"{found.spec.node_name}/{found.spec.address}" in places
    if change.kind == "layouts":
        layouts = (one for one in (change.before, change.after) if one is not None)
        return any(entry.name in shown for layout in layouts for entry in layout.status.gpus)
    return False


PAGES = (Page("/gpus", "gpus.html", context, kinds=KINDS_READ, title="nav.gpus", needs=(LIST,)),)
ACTIONS: tuple[Action, ...] = ()
