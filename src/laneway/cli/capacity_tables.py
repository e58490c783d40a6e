"""The ledger as `laneway capacity` shows it: a table for people, plain data for programs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

from laneway.cli import table
from laneway.cli.order import natural
from laneway.core.ledger.explain import devices_on
from laneway.core.ledger.facts import Consumer, Phase
from laneway.core.ledger.ledger import Counts, Entry, Ledger, State, Stock

COLUMNS = (
    table.Column("RESOURCE"),
    table.Column("TOTAL", spare=True),
    table.Column("HELD", spare=True),
    table.Column("RESERVED", spare=True),
    table.Column("WANTED", spare=True),
    table.Column("FREE"),
    table.Column("UNHEALTHY", spare=True),
)

_HOW = {
    State.HELD: "held by",
    State.RESERVED: "reserved by the stopped",
    State.WANTED: "requested by",
}


def shown(ledger: Ledger, nodes: Collection[str]) -> list[Stock]:
    """The stocks of these nodes, of all where none is named, in the order of people."""
    found = [stock for stock in ledger.stocks.values() if not nodes or stock.node in nodes]
    return sorted(found, key=lambda stock: (natural(stock.node), natural(stock.resource)))


def sections(stocks: Iterable[Stock], *, devices: bool = False) -> Iterator[table.Section]:
    """A section for every node, and one for all where there are several."""
    sums: dict[str, Counts] = {}
    nodes = 0
    for node, on_node in groupby(stocks, key=lambda stock: stock.node):
        found = list(on_node)
        nodes += 1
        for stock in found:
            sums[stock.resource] = sums.get(stock.resource, Counts()) + stock.counts
        title = f"{node} ({found[0].closed})" if found[0].closed else node
        yield table.Section(title, tuple(_row(stock, devices=devices) for stock in found))
    if nodes > 1:
        ordered = sorted(sums.items(), key=lambda item: natural(item[0]))
        rows = (table.Row(_cells(resource, counts)) for resource, counts in ordered)
        yield table.Section(f"all {nodes} nodes", tuple(rows))


def _row(stock: Stock, *, devices: bool) -> table.Row:
    if devices:
        notes = tuple(f"{entry.device.name}: {_entry(entry)}" for entry in stock.entries())
    else:
        taken = devices_on(stock).taken
        notes = tuple(taken.split("; ")) if taken else ()
    return table.Row(_cells(stock.resource, stock.counts), notes)


def _cells(resource: str, counts: Counts) -> tuple[str, ...]:
    numbers = (
        counts.total,
        counts.held,
        counts.reserved,
        counts.wanted,
        counts.free,
        counts.unhealthy,
    )
    return (resource, *map(str, numbers))


def _entry(entry: Entry) -> str:
    if entry.consumer is None:
        return f"{entry.state}: {entry.unhealthy}" if entry.unhealthy else str(entry.state)
    described = f"{_HOW[entry.state]} {entry.consumer}"
    return f"{described}; {entry.unhealthy}" if entry.unhealthy else described


def shortages(ledger: Ledger) -> Iterator[str]:
    """A line for every VM or pod whose devices the cluster does not have."""
    for short in ledger.shortages:
        missing = ", ".join(f"{count} x {name}" for name, count in sorted(short.missing.items()))
        if short.phase is Phase.STOPPED:
            yield f"{short.consumer} is stopped and cannot start: the cluster lacks {missing}"
        else:
            yield f"{short.consumer} cannot start: the cluster lacks {missing}"


def plain(ledger: Ledger, stocks: Iterable[Stock], *, devices: bool) -> dict[str, Any]:
    """The same for programs."""
    return {
        "resources": [_plain_stock(stock, devices=devices) for stock in stocks],
        "short": [
            {
                **plain_consumer(short.consumer),
                "phase": str(short.phase),
                "missing": dict(short.missing),
            }
            for short in ledger.shortages
        ],
    }


def _plain_stock(stock: Stock, *, devices: bool) -> dict[str, Any]:
    counts = stock.counts
    numbers = {"total": counts.total} | {str(state): getattr(counts, state) for state in State}
    holders: dict[tuple[State, Consumer], int] = {}
    for taking in stock.taken.values():
        holders[taking.state, taking.consumer] = holders.get((taking.state, taking.consumer), 0) + 1
    found: dict[str, Any] = {
        "node": stock.node,
        "resource": stock.resource,
        **numbers,
        "closed": stock.closed,
        "holders": [
            {**plain_consumer(consumer), "state": str(state), "devices": count}
            for (state, consumer), count in sorted(holders.items())
        ],
    }
    if devices:
        found["devices"] = [
            {
                "name": entry.device.name,
                "state": str(entry.state),
                "unhealthy": entry.unhealthy,
                "holder": None if entry.consumer is None else plain_consumer(entry.consumer),
            }
            for entry in stock.entries()
        ]
    return found


def plain_consumer(consumer: Consumer) -> Mapping[str, str]:
    """Kind, namespace and name."""
    return {"kind": str(consumer.kind), "namespace": consumer.namespace, "name": consumer.name}
