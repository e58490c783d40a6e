"""The ledger as the table of `laneway capacity`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from laneway.cli import table
from laneway.core.ledger.ledger import Counts, Stock
from laneway.views.capacity import device_words, taken_words
from laneway.views.order import natural

COLUMNS = (
    table.Column("RESOURCE"),
    table.Column("TOTAL", spare=True),
    table.Column("HELD", spare=True),
    table.Column("RESERVED", spare=True),
    table.Column("WANTED", spare=True),
    table.Column("FREE"),
    table.Column("UNHEALTHY", spare=True),
)


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
        notes = tuple(f"{entry.device.name}: {device_words(entry)}" for entry in stock.entries())
    else:
        notes = taken_words(stock)
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
