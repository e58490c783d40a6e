"""What the lists of PCI devices and of USB devices have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from laneway.web import holders
from laneway.web.claiming.family import Family
from laneway.web.claiming.rows import STATES, Row, brief
from laneway.web.page import Context
from laneway.web.rendering import Texts
from laneway.web.tables.rows import Rows
from laneway.web.tables.table import Filter, Option, View
from laneway.web.visit import Visit


def filters(texts: Texts) -> list[Filter[Row]]:
    """By state, and by whether there is a claim."""
    return [
        Filter(
            "state",
            texts("claiming.state"),
            values=lambda row: (row.state,),
            options=lambda: [Option(one, texts(f"claiming.state_{one}")) for one in STATES],
            groups=True,
        ),
        Filter(
            "claim",
            texts("claiming.claim"),
            values=lambda row: ("no" if row.claim is None else "yes",),
            options=lambda: [Option(one, texts(f"claiming.claim_{one}")) for one in ("yes", "no")],
        ),
    ]


def shown(visit: Visit, family: Family, view: View[Row], rows: Rows[Row]) -> Context:
    """The values that the templates of both lists need."""
    return {
        "table": view,
        "subtotals": _subtotals(view, rows),
        "brief": brief,
        "holder": lambda row: holders.of_allocation(visit, row.allocation),
        "may_claim": visit.may(family.create),
        "may_release": visit.may(family.delete),
    }


async def load(visit: Visit, view: View[Row]) -> None:
    """Ask what the user may see of the holders of the devices in the list."""
    await holders.load_allocations(visit, (row.allocation for row in view.rows))


def _subtotals(view: View[Row], rows: Rows[Row]) -> Mapping[str, Sequence[tuple[str, int]]]:
    """How many rows of each group of the page are in which state, on all pages."""
    grouping = next((one for one in view.groupings if one.id == view.group), None)
    if grouping is None or grouping.id == "state":
        return {}
    shown: dict[str, Counter[str]] = {group.value: Counter() for group in view.groups}
    if rows.is_indexed(grouping.id) and view.matching == view.total:
        for value, count in shown.items():
            count.update(entry.item.state for entry in rows.with_value(grouping.id, value))
    else:
        for entry in view.found:
            for value in grouping.values(entry.item):
                if value in shown:
                    shown[value][entry.item.state] += 1
    return {
        value: [(one, count[one]) for one in STATES if count[one]] for value, count in shown.items()
    }
