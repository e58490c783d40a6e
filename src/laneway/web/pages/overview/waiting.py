"""What waits for devices, and why: as far as the user may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.ledger.facts import Demand, Phase
from laneway.core.ledger.ledger import Ledger, Shortage
from laneway.views.capacity import shortage_words, starting_words
from laneway.views.explain.vm import start_answer
from laneway.web import holders
from laneway.web.derived import Once
from laneway.web.visit import Visit

MOST = 10


class Line(NamedTuple):
    """A VM or pod that waits."""

    kind: str
    """Of its state: `danger`, `working`, or `off` for one that nobody wants to run."""
    words: str
    why: Sequence[str]
    url: str


class Waiting(NamedTuple):
    """Those that wait, the most urgent first."""

    lines: Sequence[Line]
    more: int
    """How many wait besides those."""


class _One(NamedTuple):
    demand: Demand
    short: Shortage | None


_WAITING = Once[list[_One]]()


def waiting(visit: Visit, ledger: Ledger) -> Waiting:
    """All that the user may see."""
    every = _WAITING.get(lambda: _all(ledger), ledger)
    seen = [one for one in every if holders.may_see(visit, one.demand.consumer)]
    lines = [_line(visit, ledger, one) for one in seen[:MOST]]
    return Waiting(lines, len(seen) - len(lines))


def _all(ledger: Ledger) -> list[_One]:
    short = {one.consumer: one for one in ledger.shortages}
    found = [
        _One(demand, short.get(consumer))
        for consumer, demand in ledger.demands.items()
        if consumer in short
        or (demand.phase is Phase.PENDING and any(count > 0 for count in demand.requests.values()))
    ]
    return sorted(found, key=_urgency)


def _urgency(one: _One) -> tuple[bool, bool, object]:
    return one.demand.phase is Phase.STOPPED, one.short is None, one.demand.consumer


def _line(visit: Visit, ledger: Ledger, one: _One) -> Line:
    consumer, url = one.demand.consumer, holders.url(visit, one.demand.consumer)
    if one.short is None:
        return Line("working", starting_words(one.demand), (), url)
    answer = start_answer(ledger, consumer)
    why = [holders.words(visit, refusal) for refusal in answer.refusals] if answer else []
    kind = "off" if one.demand.phase is Phase.STOPPED else "danger"
    return Line(kind, shortage_words(one.short), why, url)
