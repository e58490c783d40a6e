"""What waits for devices, and why: as far as the user may see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from laneway.controllers.ledger.objects import PODS
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, Phase
from laneway.core.ledger.ledger import Ledger, Shortage
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.views.capacity import shortage_words, starting_words
from laneway.views.explain.vm import start_answer
from laneway.web import holders
from laneway.web.access import question
from laneway.web.derived import Once
from laneway.web.visit import Visit

MOST = 10


class Line(NamedTuple):
    """A VM or pod that waits."""

    kind: str
    """Of its state: `danger`, `working`, or `off` for a stopped one."""
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
_LISTS = {
    ConsumerKind.VM: question("list", VIRTUAL_MACHINES),
    ConsumerKind.POD: question("list", PODS),
}


async def load(visit: Visit) -> None:
    """Wait for the answers about the namespaces of all who wait."""
    access, ledger = visit.user.access, visit.ledger
    await access.load(_LISTS.values())
    if ledger is None:
        return
    for kind, asked in _LISTS.items():
        if not visit.may(asked):
            waiting = (one.demand.consumer for one in _waiting(ledger))
            names = {consumer.namespace for consumer in waiting if consumer.kind is kind}
            await access.load_namespaces(asked, names)


def waiting(visit: Visit, ledger: Ledger) -> Waiting:
    """All that the user may see."""
    seen = [one for one in _waiting(ledger) if holders.may_see(visit, one.demand.consumer)]
    lines = [_line(visit, ledger, one) for one in seen[:MOST]]
    return Waiting(lines, len(seen) - len(lines))


def _waiting(ledger: Ledger) -> list[_One]:
    return _WAITING.get(lambda: _all(ledger), ledger)


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
    url = holders.of_consumer(visit, one.demand.consumer).url
    if one.short is None:
        return Line("working", starting_words(one.demand), (), url)

    def naming(consumer: Consumer) -> str:
        if holders.may_see(visit, consumer):
            return str(consumer)
        return visit.texts(f"overview.hidden_{consumer.kind.name.lower()}")

    answer = start_answer(ledger, one.demand.consumer, naming)
    why = [refusal.words for refusal in answer.refusals] if answer else []
    kind = "off" if one.demand.phase is Phase.STOPPED else "danger"
    return Line(kind, shortage_words(one.short), why, url)
