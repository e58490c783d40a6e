"""The overview: what there is of which devices, what waits, what is wrong, what changed lately.

It is about the whole cluster, so nearly every change shows on it: it is drawn at most once a
second, from what `standing` and the ledger have worked out for all users.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from laneway.views.troubles import Weight
from laneway.web.caches import LEDGER, Change
from laneway.web.page import Action, Context, Page
from laneway.web.pages.overview import stocks
from laneway.web.pages.overview.stocks import Row
from laneway.web.pages.overview.waiting import load, waiting
from laneway.web.pictures.bars import Bar, capacity_bars, capacity_picture
from laneway.web.pictures.drawing import Say
from laneway.web.place import address
from laneway.web.problems import LISTS, event, problems_of, visible
from laneway.web.standing import DEVICES, Standing, looks_other, standing
from laneway.web.tables.table import View
from laneway.web.visit import Visit

SECONDS = 1.0
"""Between two drawings."""
PROBLEMS, EVENTS, SUMS = 12, 10, 6
"""So many of each are shown."""
_CAPACITY = frozenset({"vgpus", "claims", "usb_claims"})
"""Without the right to list these nothing is said about capacity."""


class Tile(NamedTuple):
    """A number on top."""

    title: str
    text: str
    url: str


def _context(visit: Visit) -> Context:
    seen, now = visible(visit), standing(visit.caches)
    ledger = visit.ledger if seen >= _CAPACITY else None
    context: dict[str, object] = {
        "tiles": _tiles(visit, now, seen),
        "problems": problems_of(visit, now.troubles(seen), PROBLEMS),
        "events": [event(visit, *one) for one in now.happened(seen, EVENTS)],
        "waiting": None if visit.ledger is None else waiting(visit, visit.ledger),
        "hidden": sorted(LISTS[kind].resource for kind in _CAPACITY - seen),
        "bar": lambda row, ids: _picture(row.bar, ids, visit.texts),
        "capacity": None if ledger is None else _capacity(visit, stocks.of(ledger, now)),
        "concerns": _concerns,
    }
    return context


@functools.lru_cache(maxsize=2048)
def _picture(bar: Bar, ids: str, say: Say) -> Markup:
    """Most bars look the same at the next drawing."""
    return capacity_picture(bar, ids=ids, say=say)


class Capacity(NamedTuple):
    """What there is of which devices."""

    table: View[Row]
    sums: str
    """Bars of all devices, and of the types of which there are most; empty where there is none."""
    all_types_url: str
    more_types: int
    subtotals: Mapping[str, Row]
    only_creatable: int
    """Types of which there is no device, and could be."""
    creatable_url: str
    states: Sequence[str]


def _capacity(visit: Visit, rows: stocks.Stocks) -> Capacity:
    view = stocks.table(visit, rows).view(rows.sought(visit.place), visit.place)
    matching = (one.item for one in view.found) if view.group else ()
    sums = [stocks.whole(rows.sums, visit.texts("overview.all")), *rows.sums[:SUMS]]
    return Capacity(
        table=view,
        sums=capacity_bars([one.bar for one in sums], ids="sum", say=visit.texts)
        if rows.existing
        else "",
        all_types_url=address("/", [("group", "type")]),
        more_types=max(0, len(rows.sums) - SUMS),
        subtotals=stocks.subtotals(matching, view.group),
        only_creatable=rows.only_creatable if view.total == len(rows.existing) else 0,
        creatable_url=visit.place.with_(state="creatable"),
        states=stocks.STATES,
    )


def _tiles(visit: Visit, now: Standing, seen: frozenset[str]) -> list[Tile]:
    texts, caches = visit.texts, visit.caches
    tiles = []
    if "nodes" in seen:
        failed = sum(found[0].weight is Weight.FAILED for found in now.of_nodes().values())
        nodes = len(caches.nodes.store)
        text = texts("overview.of", count=f"{max(0, nodes - failed):,}", whole=f"{nodes:,}")
        tiles.append(Tile(texts("overview.nodes_in_order"), text, "/nodes"))
    if "gpus" in seen:
        tiles.append(Tile(texts("nav.gpus"), f"{len(caches.gpus.store):,}", "/gpus"))
    if "vgpus" in seen:
        count = now.configured.total()
        tiles.append(Tile(texts("overview.vgpus"), f"{count:,}", "/vgpus?state=enabled"))
    if "claims" in seen:
        tiles.append(Tile(texts("overview.claims"), f"{len(caches.claims.store):,}", "/pci"))
    return tiles


def _concerns(change: Change) -> bool:
    if change.kind in DEVICES:
        return looks_other(change)
    if change.kind == "nodes" and change.before is not None and change.after is not None:
        before, after = change.before, change.after
        return bool(
            before.spec != after.spec
            or [one.status for one in before.status.conditions]
            != [one.status for one in after.status.conditions]
        )
    return True


PAGES = (
    Page(
        "/",
        "overview.html",
        _context,
        kinds=frozenset({*DEVICES, "nodes", "agents", LEDGER.kind}),
        title="nav.overview",
        asks=tuple(LISTS.values()),
        prepare=load,
        pause=SECONDS,
    ),
)
ACTIONS: tuple[Action, ...] = ()
