"""The page of reasons, from the data that the program compares its own reasons with."""

from __future__ import annotations

from itertools import groupby

from laneway.core.reasons import REASONS
from reference.markdown import page, table

_INTRODUCTION = """
A reason is one word for one state. It is the `reason` of a condition or an event, the first word
of a refusal that a command prints, and in `details.causes` of a refused write. Reasons never
change once released; the message that comes with one says which object, which state and what to
do.

`laneway explain OBJECT` prints the reasons of an object with their remedies. Search this page for
the word.
"""


def reasons() -> str:
    """All reasons by section, in the order of the data, and within a section by name."""
    sections: list[str] = []
    order = {one.where: number for number, one in reversed(list(enumerate(REASONS)))}
    found = sorted(REASONS, key=lambda one: (order[one.where], one.reason))
    for where, some in groupby(found, key=lambda one: one.where):
        rows = (
            (f'<a id="{one.reason}"></a>`{one.reason}`<br>{one.on}', one.meaning, one.remedy)
            for one in some
        )
        sections += [f"## {where}", table(("reason, on", "meaning", "what to do"), rows)]
    return page("Reasons", _INTRODUCTION, *sections)
