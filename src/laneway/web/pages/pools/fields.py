"""The form of a pool: rows of a device type and a number, and the number of machines.

Fields are `type` and `count`, repeated in the order of the rows, and `machines`. The last row has
no number until it has a type, and then 1. A row without a type, or with the number 0, is no
request. What cannot be read is a problem of its row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from laneway.controllers.machine_pools.reading import MOST_MACHINES
from laneway.core.machine_pools.device_info import MOST
from laneway.core.phrases import quoted
from laneway.views.order import natural
from laneway.web.pages.vms.fields import Typed
from laneway.web.rendering import Texts

EDITED = "edited"
"""A field that only a form that was sent or edited has."""
HAD = "had"
"""What the pool had when the form was opened."""
_ROWS = 32

Wrong = Mapping[str, Sequence[str]]


class Row(NamedTuple):
    """A row as it was typed."""

    resource: str
    number: str


class Values(NamedTuple):
    """The fields of the form as they are shown."""

    rows: Sequence[Row]
    machines: str
    had: str


class Read(NamedTuple):
    """What they say."""

    devices: Mapping[str, int]
    machines: int | None
    wrong: Wrong
    """By field: `row-N`, `machines`."""


def shown(devices: Mapping[str, int], quantity: int, had: str) -> Values:
    """The fields of a pool as it is."""
    rows = [Row(one, str(devices[one])) for one in sorted(devices, key=natural)]
    return Values(_and_empty(rows), str(quantity), had)


def typed(fields: Typed) -> Values:
    """The fields as they were typed."""
    types = [value for name, value in fields.fields if name == "type"]
    counts = [value.strip() for name, value in fields.fields if name == "count"]
    counts += ["1"] * (len(types) - len(counts))
    rows = [Row(*one) for one in zip(types, counts, strict=False) if one[0]]
    return Values(_and_empty(rows[:_ROWS]), fields.get("machines"), fields.get(HAD))


def query(given: Values) -> tuple[tuple[str, str], ...]:
    """The fields in an address, which has none that is empty: a number that is missing is `-`."""
    rows = [
        field
        for row in given.rows
        if row.resource
        for field in (("type", row.resource), ("count", row.number or "-"))
    ]
    return ((EDITED, "1"), (HAD, given.had), ("machines", given.machines), *rows)


def _and_empty(rows: Sequence[Row]) -> Sequence[Row]:
    return [*rows, Row("", "")]


def read(given: Values, known: frozenset[str], texts: Texts) -> Read:
    """The devices of each machine and the number of machines; what is wrong is left out.

    `known`: the resources that can be chosen.
    """
    wrong: dict[str, list[str]] = {}
    devices: Counter[str] = Counter()
    for at, row in enumerate(given.rows):
        if not row.resource:
            continue
        number = _number(row.number, MOST)
        if row.resource not in known:
            wrong[f"row-{at}"] = [texts("pools.no_type", name=quoted(row.resource))]
        elif number is None:
            wrong[f"row-{at}"] = [texts("pools.bad_count", most=MOST)]
        else:
            devices[row.resource] += number
            if devices[row.resource] > MOST:
                wrong[f"row-{at}"] = [texts("pools.bad_count", most=MOST)]
    machines = _number(given.machines, MOST_MACHINES)
    if machines is None:
        wrong["machines"] = [texts("pools.bad_machines", most=f"{MOST_MACHINES:,}")]
    return Read({name: count for name, count in devices.items() if count}, machines, wrong)


def _number(text: str, most: int) -> int | None:
    is_number = text.isascii() and text.isdecimal() and len(text) < 9
    return int(text) if is_number and int(text) <= most else None
