"""Nodes: all of them as a table, one with all that is known about it, and what the doctor finds."""

from __future__ import annotations

from laneway.web.caches import Change
from laneway.web.page import Action, Context, Page
from laneway.web.pages.nodes import detail, doctor
from laneway.web.pages.nodes.rows import Row, table
from laneway.web.problems import LISTS, visible
from laneway.web.standing import DEVICES, looks_other, node_names, node_of_object, standing
from laneway.web.tables.table import concerns
from laneway.web.visit import Visit


def _context(visit: Visit) -> Context:
    now, seen = standing(visit.caches), visible(visit)

    def row(name: str) -> Row:
        return Row(visit.caches, now, seen, name)

    view = table(visit).view([row(name) for name in node_names(visit.caches)], visit.place)

    def others(change: Change) -> bool:
        if change.kind not in DEVICES:
            return True
        return node_of_object(change.kind, change.after or change.before) in view.shown and (
            looks_other(change)
        )

    return {
        "table": view,
        "concerns": concerns(view, "nodes", lambda node: row(node.metadata.name), others),
    }


PAGES = (
    Page(
        "/nodes",
        "nodes.html",
        _context,
        kinds=frozenset({*DEVICES, "nodes", "agents"}),
        title="nav.nodes",
        needs=(LISTS["nodes"],),
        asks=tuple(LISTS.values()),
    ),
    *detail.PAGES,
    *doctor.PAGES,
)
ACTIONS: tuple[Action, ...] = ()
