"""The list of GPUs that can be divided into GPU instances."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from laneway.api import MigConfiguration, SRIOVGPUDevice
from laneway.kube.resource import served
from laneway.views import instances
from laneway.views.gpus import staleness
from laneway.views.mig_state import State, state_of
from laneway.web.access import question
from laneway.web.caches import NODE, Caches, Change
from laneway.web.page import Context, Page
from laneway.web.pages.gpus.rows import board_of
from laneway.web.pages.gpus.states import MODES, ordered
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Visit

MIGS = served(MigConfiguration)
LIST, PATCH = question("list", MIGS), question("patch", MIGS)
STATES = ("outofsync", "away", "progress", "enabled", "disabled")
"""The worst first."""
KINDS = {
    "outofsync": "danger",
    "away": "warning",
    "progress": "working",
    "enabled": "success",
    "disabled": "off",
}
"""How each is drawn."""


class Row(NamedTuple):
    """The GPU instances of a GPU."""

    mig: MigConfiguration
    gpu: SRIOVGPUDevice | None
    board: str
    state: State

    @property
    def name(self) -> str:
        return self.mig.metadata.name

    @property
    def node(self) -> str:
        return self.mig.spec.node_name

    @property
    def mode(self) -> str:
        return self.gpu.status.mode if self.gpu is not None else ""

    @property
    def present(self) -> str:
        """The GPU instances that there are."""
        found = self.mig.status.profile_status
        return instances.counted({one.name: len(one.vgpu_ids) for one in found})

    @property
    def desired(self) -> str:
        """Those that are desired; empty where none are, or these are not enabled."""
        asked = self.mig.spec.profile_spec if self.mig.spec.enabled else ()
        return instances.counted({one.name: one.requested for one in asked})


def row_of(caches: Caches, name: str) -> Row | None:
    """The row of a MigConfiguration; None for one that does not exist."""
    mig = caches.migs.store.get(name)
    if mig is None:
        return None
    stale = staleness(caches.nodes.store.get(mig.spec.node_name))
    return Row(
        mig,
        caches.gpus.store.get(name),
        board_of(caches.pci.store.get(name)),
        state_of(mig, stale),
    )


def _touched(caches: Caches, change: Change) -> Iterator[str]:
    if change.kind in ("migs", "gpus", "pci"):
        if change.kind == "migs" or caches.migs.store.get(change.key.name) is not None:
            yield change.key.name
    elif change.kind == "nodes" and staleness(change.before) != staleness(change.after):
        yield from (one.metadata.name for one in caches.migs.store.by(NODE, change.key.name))


def _place(row: Row) -> tuple[object, ...]:
    return ordered(row.node), row.mig.spec.gpu_address


def _table(visit: Visit) -> Table[Row]:
    texts = visit.texts

    @cache
    def nodes() -> Sequence[Option]:
        found = sorted(map(str, visit.caches.migs.store.values(NODE)), key=ordered)
        return [Option(node, node) for node in found]

    def states() -> Sequence[Option]:
        return [Option(one, texts(f"mig.state_{one}")) for one in STATES]

    def chosen(
        name: str,
        value: Callable[[Row], str],
        options: Callable[[], Sequence[Option]],
        order: Callable[[str], object] = ordered,
    ) -> Filter[Row]:
        title = texts(f"mig.{name}")
        return Filter(name, title, lambda row: (value(row),), options, groups=True, order=order)

    return Table(
        columns=[
            Column("state", texts("mig.state"), order=lambda row: STATES.index(row.state.kind)),
            Column("gpu", texts("mig.gpu"), order=_place),
            Column("mode", texts("mig.mode"), order=lambda row: row.mode),
            Column("present", texts("mig.present"), order=lambda row: row.present),
            Column("desired", texts("mig.desired"), order=lambda row: row.desired),
            Column("status", texts("mig.status"), order=lambda row: row.mig.status.status),
        ],
        key=lambda row: row.name,
        text=lambda row: f"{row.name} {row.node}/{row.mig.spec.gpu_address} {row.board}",
        order=_place,
        filters=[
            chosen("node", lambda row: row.node, nodes),
            chosen("state", lambda row: row.state.kind, states, STATES.index),
            chosen("mode", lambda row: row.mode, lambda: [Option(one, one) for one in MODES]),
        ],
    )


def _rows(visit: Visit) -> Rows[Row]:
    caches = visit.caches
    return visit.site.rows(
        "migs",
        lambda: _table(visit).rows(
            keys=[one.metadata.name for one in caches.migs.store],
            build=lambda name: row_of(caches, name),
            touched=lambda change: _touched(caches, change),
            indexed=("node", "state", "mode"),
        ),
    )


def _context(visit: Visit) -> Context:
    table, rows = _table(visit), _rows(visit)
    view = table.view(rows, visit.place)
    return {"table": view, "kinds": KINDS, "concerns": concerns_rows(view, rows)}


PAGES = (
    Page(
        "/mig",
        "mig.html",
        _context,
        kinds=frozenset({"migs", "gpus", "pci", "nodes"}),
        title="nav.mig",
        needs=(LIST,),
    ),
)
