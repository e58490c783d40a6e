"""Reading the file of the history: a page of what is asked for, however much there is.

Every question is put as ranges of an index that is in the order of the page, so a page costs what
it shows and not what the file has. Two things are not such a range of themselves:

- Entries of several namespaces. Each namespace is a range of its own. The newest entry of each is
  looked up first, and they are read in this order for as long as one can add to the page.
- What was held at a moment, by entries that began before it. Those that are still held have indexes
  of their own, which are as small as the number of devices; those that have ended since are found
  by their end where these are few, and by their begin otherwise.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from laneway.core.history import Gap, Hold, Span
from laneway.core.ledger.facts import Consumer, ConsumerKind

_GAPS = 10_000
"""So many gaps are looked at to say how much of an entry was not observed."""
_FEW = 2_000
"""So many entries may be sorted for a page."""
_MANY = 8
"""From so many ranges on it pays to look where the newest entries are."""
_COLUMNS = (
    "id, since, until, device, node, gpu, profile, resource, kind, namespace, name, "
    "begin_seen, end_seen"
)
_ORDER = "ORDER BY since DESC, id DESC"
_STILL = {
    "by_time": "still_by_time",
    "by_node": "still_by_node",
    "by_place": "still_by_place",
    "by_device": "still",
    "by_gap": "still",
}
"""The index that has of another only what has not ended."""


class Query(msgspec.Struct, frozen=True):
    """Which entries are wanted; empty fields do not matter."""

    device: str = ""
    node: str = ""
    namespace: str = ""
    name: str = ""
    since: int | None = None
    until: int | None = None
    after: tuple[int, int] | None = None
    """The time and id of the last entry of the page before."""
    limit: int = 50


class Found(NamedTuple):
    """A page, the newest first."""

    spans: Sequence[Span]
    more: bool
    gaps: Mapping[str, Sequence[Gap]]
    """In the time of these entries: of everything under the empty name, and of their nodes."""
    began: int
    """Before that nothing is known."""


class _Range(NamedTuple):
    """A part of an index, in the order of the page, and what of it is wanted."""

    of: str
    """The index."""
    conditions: tuple[str, ...]
    values: tuple[object, ...] = ()

    def where(self, condition: str, *values: object) -> _Range:
        """Less of it."""
        return self._replace(
            conditions=(*self.conditions, condition), values=(*self.values, *values)
        )

    def rows(self, db: sqlite3.Connection, columns: str, most: int) -> sqlite3.Cursor:
        """The newest of it."""
        return db.execute(
            f"SELECT {columns} FROM spans INDEXED BY {self.of} "  # noqa: S608 - ours
            f"WHERE {' AND '.join(self.conditions)} {_ORDER} LIMIT ?",
            (*self.values, most),
        )


def find(db: sqlite3.Connection, query: Query, allowed: Iterable[Consumer] | None) -> Found:
    """Entries of holders in these places, None for all; gaps concern every holder."""
    wanted, held = _held(db, query, allowed)
    ranges = [*_in_time(db, query, wanted, held), *_in_time(db, query, *_unseen(db, query))]
    found = _newest(db, ranges, query.limit + 1)
    page = found[: query.limit]
    row = db.execute("SELECT value FROM facts WHERE name = 'began'").fetchone()
    return Found(page, len(found) > query.limit, _gaps(db, page), row[0] if row else 0)


def places(db: sqlite3.Connection) -> frozenset[Consumer]:
    """Each kind of holder and namespace in the history, without names."""
    rows = db.execute("SELECT kind, namespace FROM places")
    return frozenset(Consumer(ConsumerKind(kind), namespace, "") for kind, namespace in rows)


# ---- what is asked for, as ranges ----


def _held(
    db: sqlite3.Connection, query: Query, allowed: Iterable[Consumer] | None
) -> tuple[_Range, list[_Range]]:
    """Which holders and devices: as a condition of any entry, and as ranges."""
    among = _among(db, query, allowed)
    named = {"device": query.device, "node": query.node, "name": query.name}
    chosen = [(f"{column} = ?", value) for column, value in named.items() if value]
    wanted = _Range("", ("device != ''",))
    for condition, value in chosen:
        wanted = wanted.where(condition, value)
    if among is None:
        index = "by_device" if query.device else "by_node" if query.node else "by_time"
        return wanted, [wanted._replace(of=index)]
    apart = wanted
    pairs = msgspec.json.encode([[one.kind.value, one.namespace] for one in among]).decode()
    wanted = wanted.where(
        "(kind, namespace) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') "
        "FROM json_each(?))",
        pairs,
    )
    if query.device or (query.node and not query.name):
        return wanted, [wanted._replace(of="by_device" if query.device else "by_node")]
    index = "by_name" if query.name else "by_place"
    return wanted, [
        apart._replace(of=index)
        .where("kind = ?", one.kind.value)
        .where("namespace = ?", one.namespace)
        for one in among
    ]


def _among(
    db: sqlite3.Connection, query: Query, allowed: Iterable[Consumer] | None
) -> frozenset[Consumer] | None:
    """The places of holders that the question is about; None: all."""
    if allowed is None and not query.namespace and not query.name:
        return None
    return frozenset(
        one
        for one in (places(db) if allowed is None else allowed)
        if query.namespace in ("", one.namespace)
        and (not query.name or one.kind is ConsumerKind.VM)
    )


def _unseen(db: sqlite3.Connection, query: Query) -> tuple[_Range, list[_Range]]:
    """Which gaps: those of everything, and of the nodes in question."""
    wanted = _Range("by_device", ("device = ''",))
    node = query.node
    if query.device and not node:
        entry = _Range("by_device", ("device = ?",), (query.device,))
        node = next((one for (one,) in entry.rows(db, "node", 1)), "")
    if not node and not query.device:
        return wanted, [wanted]
    nodes = dict.fromkeys(("", node))
    ranges = [wanted._replace(of="by_gap").where("node = ?", one) for one in nodes]
    return wanted.where("node IN ('', ?)", node), ranges


def _in_time(
    db: sqlite3.Connection, query: Query, wanted: _Range, ranges: Sequence[_Range]
) -> Iterator[_Range]:
    """What of it overlaps the time that is asked for, on this page."""
    for condition, values in (
        ("since < ?", () if query.until is None else (query.until,)),
        ("(since, id) < (?, ?)", query.after or ()),
    ):
        if values:
            wanted = wanted.where(condition, *values)
            ranges = [one.where(condition, *values) for one in ranges]
    if (moment := query.since) is None:
        yield from ranges
        return
    for one in ranges:
        yield one.where("since > ?", moment)
        still = one._replace(of=_STILL.get(one.of, one.of))
        yield still.where("until IS NULL").where("since <= ?", moment)
    ended = "SELECT count(*) FROM (SELECT 1 FROM spans WHERE until > ? LIMIT ?)"
    [few] = db.execute(ended, (moment, _FEW + 1)).fetchone()
    if few <= _FEW:
        ranges = [wanted._replace(of="by_end")]
    for one in ranges:
        yield one.where("until > ?", moment).where("since <= ?", moment)


# ---- reading them ----


def _newest(db: sqlite3.Connection, ranges: list[_Range], most: int) -> list[Span]:
    """So many of all the ranges, which have nothing in common, the newest first."""
    if len(ranges) > _MANY:
        heads = [(row, one) for one in ranges for row in one.rows(db, "since, id", 1)]
        heads.sort(key=lambda head: head[0], reverse=True)
    else:
        heads = [((math.inf, 0), one) for one in ranges]
    found: list[Sequence[Any]] = []
    for head, one in heads:
        rest = one
        if len(found) == most:
            last = _moment(found[-1])
            if head < last:
                break
            rest = one.where("(since, id) > (?, ?)", *last)
        found += rest.rows(db, _COLUMNS, most)
        found = sorted(found, key=_moment, reverse=True)[:most]
    return [_span(row) for row in found]


def _moment(row: Sequence[Any]) -> tuple[int, int]:
    id_, since, *_ = row
    return since, id_


def _span(row: Sequence[Any]) -> Span:
    id_, since, until, device, node, gpu, profile, resource, kind, namespace, name, *seen = row
    if not device:
        return Span(id_, since, until, None, node=node)
    begin_seen, end_seen = map(bool, seen)
    holder = Consumer(ConsumerKind(kind), namespace, name)
    hold = Hold(device, node, resource, holder, gpu, profile)
    return Span(id_, since, until, hold, begin_seen, end_seen)


def _gaps(db: sqlite3.Connection, page: Sequence[Span]) -> Mapping[str, Sequence[Gap]]:
    """What was not observed since the first entry of a page began.

    Gaps of one node do not overlap, so only one that began before can reach into this time.
    """
    held = [one for one in page if one.hold is not None]
    if not held:
        return {}
    first = min(one.since for one in held)
    nodes = sorted({"", *(one.hold.node for one in held if one.hold is not None)})
    rows = db.execute(
        "SELECT gap.since, gap.until, gap.node FROM json_each(?) AS asked "
        "CROSS JOIN spans AS gap INDEXED BY by_gap "
        "ON gap.device = '' AND gap.node = asked.value AND gap.since >= ifnull(("
        "SELECT max(since) FROM spans WHERE device = '' AND node = asked.value AND since <= ?"
        "), 0) WHERE gap.until IS NULL OR gap.until > ? ORDER BY gap.since DESC LIMIT ?",
        (msgspec.json.encode(nodes).decode(), first, first, _GAPS),
    )
    found: dict[str, list[Gap]] = {}
    for row in rows:
        gap = Gap(*row)
        found.setdefault(gap.node, []).append(gap)
    return found
