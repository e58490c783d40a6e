"""A table of 120 rows on three nodes."""

from __future__ import annotations

from typing import NamedTuple

from laneway.web.tables.table import Column, Filter, Option, Table


class Row(NamedTuple):
    name: str
    node: str
    size: int


ROWS = [Row(f"gpu{n}", f"node{n % 3}", n % 7) for n in range(120)]
NODES = Filter[Row](
    "node",
    "Node",
    values=lambda row: (row.node,),
    options=lambda: [Option(f"node{n}", f"Node {n}") for n in range(3)],
    groups=True,
)
TABLE = Table[Row](
    columns=[
        Column("name", "Name", order=lambda row: row.name),
        Column("size", "Size", order=lambda row: row.size, number=True),
        Column("notes", "Notes"),
    ],
    key=lambda row: row.name,
    text=lambda row: f"{row.name} {row.node}",
    order=lambda row: int(row.name[3:]),
    filters=[NODES],
)
