"""The changes of the form: rows with numbered fields in the query, such as `type-0` and `vms-0`.

A row keeps its number while the form is edited, so a field that is being typed into stays itself.
An empty row counts as nothing, and a row in which something is missing is a problem.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from laneway.core.fleet.changes import (
    MOST_VMS,
    AddGpus,
    AddNodes,
    AddVms,
    Change,
    LeaveNode,
    SetMode,
)
from laneway.web.place import Place
from laneway.web.rendering import Texts

MOST_ROWS = 8
"""Of each kind."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    "vms": ("type", "vms"),
    "leave": ("leave",),
    "modes": ("gpu", "mode"),
    "gpus": ("node", "board", "gpus"),
    "nodes": ("server", "nodes"),
}
"""The fields of a row of each kind of change."""
_COUNTS = {"vms": MOST_VMS, "gpus": 16, "nodes": 1000}
"""The fields that are numbers, with the largest; one that is empty is 1."""

Row = Mapping[str, str]


class Read(NamedTuple):
    """What a form says."""

    changes: tuple[Change, ...]
    wrong: Mapping[str, str]
    """Problems by field: `vms-0`."""


def rows(place: Place, group: str) -> list[Row]:
    """The rows of a kind that are shown: one more than is used."""
    keys = GROUPS[group]
    every: list[Row] = [
        {key: place.get(f"{key}-{n}").strip() for key in keys} for n in range(MOST_ROWS)
    ]
    used = max((n for n, row in enumerate(every) if any(row.values())), default=-1)
    return every[: used + 2]


def read(place: Place, texts: Texts) -> Read:
    """The changes in the order in which the terminal has them: the fleet grows first."""
    wrong: dict[str, str] = {}
    found: list[Change] = []
    for group in ("nodes", "gpus", "modes", "leave", "vms"):
        for number, row in enumerate(rows(place, group)):
            counts = {key: _count(row[key], most) for key, most in _COUNTS.items() if key in row}
            if not any(row[key] for key in row if key not in counts):
                continue  # A number alone says nothing.
            for key, value in row.items():
                if key in counts and counts[key] is None:
                    wrong[f"{key}-{number}"] = texts("planner.bad_count", most=f"{_COUNTS[key]:,}")
                elif key not in counts and not value:
                    wrong[f"{key}-{number}"] = texts(f"planner.no_{key}")
            if not wrong:
                found.append(_change(group, row, next(iter(counts.values()), 1) or 1))
    return Read(() if wrong else tuple(found), wrong)


def _change(group: str, row: Row, count: int) -> Change:
    match group:
        case "nodes":
            return AddNodes(nodes=f"{count}x {row['server']}")
        case "gpus":
            return AddGpus(node=row["node"], board=row["board"], count=count)
        case "modes":
            return SetMode(gpus=(row["gpu"],), mode=row["mode"])
        case "leave":
            return LeaveNode(node=row["leave"])
        case _:
            return AddVms(requests={row["type"]: 1}, count=count)


def _count(text: str, most: int) -> int | None:
    """A number; None: it is none that is possible."""
    if not text:
        return 1
    is_number = text.isascii() and text.isdecimal() and len(text) <= len(str(most))
    return int(text) if is_number and 1 <= int(text) <= most else None
