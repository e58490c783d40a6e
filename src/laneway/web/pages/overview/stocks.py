"""The devices of the cluster by node and type, as rows of a table.

The rows are made once for each ledger. What a GPU could carry besides what it carries has rows of
its own only where a user looks for it: a driver offers fifty profiles for a card.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from laneway.core.ledger.ledger import Counts, Ledger
from laneway.views.order import natural
from laneway.web.derived import Once
from laneway.web.pictures.bars import Bar
from laneway.web.pictures.drawing import Named
from laneway.web.place import Place
from laneway.web.standing import Standing
from laneway.web.tables.table import Column, Filter, Option, Table
from laneway.web.visit import Visit

STATES = ("held", "reserved", "wanted", "unhealthy", "free", "creatable")


class Row(NamedTuple):
    """The devices of one type on one node."""

    node: str
    resource: str
    counts: Counts
    creatable: int
    order: tuple[int, int] = (0, 0)
    """The places of the node and of the type among all."""

    @property
    def id(self) -> str:
        return f"{self.node}/{self.resource}"

    def number(self, state: str) -> int:
        """How many are in one of `STATES`."""
        return self.creatable if state == "creatable" else int(getattr(self.counts, state))

    @property
    def bar(self) -> Bar:
        """Without a name: that is next to it."""
        name = Named(f"{self.resource}, {self.node}" if self.node else self.resource)
        return Bar(name=name, counts=self.counts, creatable=self.creatable)


class Stocks:
    """All rows as of one moment."""

    def __init__(self, ledger: Ledger, now: Standing) -> None:
        self._ledger, self._creatable = ledger, now.creatable
        only_creatable = now.creatable_types.keys() - ledger.homes.keys()
        self.only_creatable = len(only_creatable)
        self.types = sorted({*ledger.homes, *only_creatable}, key=natural)
        self.nodes = sorted({*ledger.nodes, *(node for node, _ in now.creatable)}, key=natural)
        self._type_order = {name: number for number, name in enumerate(self.types)}
        self._node_order = {name: number for number, name in enumerate(self.nodes)}
        self.existing = sorted(
            (
                self._row(node, resource, stock.counts, now.creatable.get((node, resource), 0))
                for (node, resource), stock in ledger.stocks.items()
            ),
            key=_order,
        )
        """Types of which there are devices."""

    @functools.cached_property
    def all(self) -> list[Row]:
        """Also those types of which there could be some."""
        more = (
            self._row(*place, Counts(), count)
            for place, count in self._creatable.items()
            if place not in self._ledger.stocks
        )
        return sorted((*self.existing, *more), key=_order)

    def _row(self, node: str, resource: str, counts: Counts, creatable: int) -> Row:
        order = self._node_order[node], self._type_order[resource]
        return Row(node, resource, counts, creatable, order)

    @functools.cached_property
    def sums(self) -> list[Row]:
        """The devices of each type in the cluster, of what there is most first."""
        found = _sums(self.existing, lambda row: row.resource)
        rows = [
            Row("", name, counts, creatable, (0, self._type_order[name]))
            for name, (counts, creatable) in found.items()
        ]
        return sorted(rows, key=lambda row: (-row.counts.total, row.order))

    def sought(self, place: Place) -> list[Row]:
        """What a look at the table is about."""
        is_sought = any(place.get(one) for one in ("q", "node", "type", "state"))
        return self.all if is_sought or not self.existing else self.existing


def of(ledger: Ledger, now: Standing) -> Stocks:
    """The rows as of now."""
    return _ROWS.get(lambda: Stocks(ledger, now), ledger, now.creatable_as_of)


_ROWS = Once[Stocks]()


def table(visit: Visit, stocks: Stocks) -> Table[Row]:
    """Its columns and filters."""
    texts = visit.texts
    numbers = [
        Column[Row](
            state,
            texts(f"overview.{state}"),
            order=functools.partial(Row.number, state=state),
            number=True,
        )
        for state in STATES
    ]
    return Table(
        columns=[
            Column("type", texts("overview.type"), order=lambda row: row.order[1]),
            Column("node", texts("overview.node"), order=lambda row: row.order[0]),
            Column("bar", texts("overview.bar")),
            *numbers,
            Column(
                "total", texts("overview.total"), order=lambda row: row.counts.total, number=True
            ),
        ],
        key=lambda row: row.id,
        text=lambda row: row.id,
        order=_order,
        filters=[
            _filter("node", texts("overview.node"), lambda row: (row.node,), stocks.nodes),
            _filter("type", texts("overview.type"), lambda row: (row.resource,), stocks.types),
            Filter(
                "state",
                texts("overview.with"),
                values=lambda row: [one for one in STATES if row.number(one)],
                options=lambda: [Option(one, texts(f"overview.{one}")) for one in STATES],
            ),
        ],
    )


def subtotals(rows: Iterable[Row], group: str) -> Mapping[str, Row]:
    """The sums of the groups of a table, by title; vGPUs of several types cannot all be created."""

    def of_group(row: Row) -> str:
        return row.node if group == "node" else row.resource

    return {
        name: Row("", name, counts, creatable if group == "type" else 0)
        for name, (counts, creatable) in _sums(rows, of_group).items()
    }


def whole(rows: Sequence[Row], title: str) -> Row:
    """All devices together."""
    return Row("", title, sum((row.counts for row in rows), Counts()), 0)


def _sums(rows: Iterable[Row], group: Callable[[Row], str]) -> dict[str, tuple[Counts, int]]:
    found: dict[str, tuple[Counts, int]] = {}
    for row in rows:
        counts, creatable = found.get(group(row), (Counts(), 0))
        found[group(row)] = counts + row.counts, creatable + row.creatable
    return found


def _filter(
    id_: str, title: str, values: Callable[[Row], Iterable[str]], known: Sequence[str]
) -> Filter[Row]:
    return Filter(
        id_, title, values, options=lambda: [Option(one, one) for one in known], groups=True
    )


def _order(row: Row) -> tuple[int, int]:
    return row.order
