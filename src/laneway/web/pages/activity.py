"""Activity: what happened lately, and every write to hardware with who requested it.

It is for those who may list the events of the cluster: they are about objects of all namespaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from laneway.views import activity
from laneway.views.activity import EVENTS, Row
from laneway.web.access import question
from laneway.web.caches import Change
from laneway.web.object_links import object_url
from laneway.web.page import Action, Context, Page
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Column, Filter, Option, Table, concerns_rows
from laneway.web.visit import Visit

READ = question("list", EVENTS)

KINDS = ("write", "failed", "warning", "normal")
SPANS = {
    "minutes": timedelta(minutes=10),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
"""How far back the time filter looks."""


def kind(row: Row) -> str:
    """One of `KINDS`: what a row is about, the worst first."""
    if row.outcome == "failed":
        return "failed"
    if row.change is not None:
        return "write"
    return "warning" if row.warning else "normal"


def _table(visit: Visit) -> Table[Row]:
    texts = visit.texts

    def kinds() -> Sequence[Option]:
        return [Option(one, texts(f"activity.kind_{one}")) for one in KINDS]

    def kinds_of(row: Row) -> tuple[str, ...]:
        own = kind(row)
        return ("write", own) if row.change is not None else (own,)

    return Table(
        columns=[
            Column("time", texts("activity.time"), order=lambda row: row.moment),
            Column("kind", texts("activity.kind"), order=lambda row: KINDS.index(kind(row))),
            Column("object", texts("activity.object"), order=lambda row: (row.kind, row.name)),
            Column("node", texts("activity.node"), order=lambda row: row.node),
            Column("who", texts("activity.who"), order=lambda row: row.who),
            Column("text", texts("activity.text")),
        ],
        key=lambda row: row.key,
        text=_text,
        order=lambda row: -row.moment.timestamp() if row.moment.year > 1 else 0.0,
        filters=[
            Filter(
                "time",
                texts("activity.time"),
                values=_spans,
                options=lambda: [Option(one, texts(f"activity.time_{one}")) for one in SPANS],
            ),
            Filter("kind", texts("activity.kind"), values=kinds_of, options=kinds),
            Filter(
                "node",
                texts("activity.node"),
                values=lambda row: (row.node,),
                options=lambda: _options(_rows(visit).values("node")),
                groups=True,
            ),
            Filter(
                "device",
                texts("activity.device"),
                values=_devices,
                options=_none,
            ),
            Filter(
                "who",
                texts("activity.who"),
                values=lambda row: (row.who,),
                options=lambda: _options(_rows(visit).values("who")),
                groups=True,
            ),
        ],
    )


def _spans(row: Row) -> tuple[str, ...]:
    age = datetime.now(UTC) - row.moment
    return tuple(name for name, span in SPANS.items() if age <= span)


def _devices(row: Row) -> tuple[str, ...]:
    """By which a link from a device finds what was done to it."""
    return (row.name, *row.devices, *(f"{row.node}/{device}" for device in row.devices))


def _none() -> Sequence[Option]:
    return ()


def _options(values: list[str]) -> Sequence[Option]:
    return [Option(value, value) for value in sorted(values) if value]


def _text(row: Row) -> str:
    steps = " ".join(f"{step.words} {step.error}" for step in row.steps)
    return f"{row.kind} {row.kind}/{row.name} {row.node} {row.reason} {row.text} {steps} {row.who}"


def _rows(visit: Visit) -> Rows[Row]:
    store = visit.caches.events.store

    def build(key: str) -> Row | None:
        namespace, _, name = key.partition("/")
        event = store.get(name, namespace)
        return activity.row_of(event) if event is not None else None

    def touched(change: Change) -> tuple[str, ...]:
        return (str(change.key),) if change.kind == "events" else ()

    return visit.site.rows(
        "activity",
        lambda: _table(visit).rows(
            keys=map(str, store.keys()), build=build, touched=touched, indexed=["node", "who"]
        ),
    )


def _context(visit: Visit) -> Context:
    table, rows = _table(visit), _rows(visit)
    view = table.view(rows, visit.place)
    return {
        "table": view,
        "kind": kind,
        "url": object_url,
        "concerns": concerns_rows(view, rows),
    }


PAGES = (
    Page(
        "/activity",
        "activity.html",
        _context,
        kinds=frozenset({"events"}),
        title="nav.activity",
        needs=(READ,),
    ),
)
ACTIONS: tuple[Action, ...] = ()
