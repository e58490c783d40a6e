"""What waits for devices, and why: as far as the user may see it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

from laneway.core.ledger.facts import Consumer, Demand, Phase
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
    """Of its state: `danger`, `working`, or `off` for a stopped one."""
    name: str
    url: str
    words: str
    """What there is to say about it, in a sentence that begins with its name."""
    why: Sequence[str]


class Waiting(NamedTuple):
    """Those that wait, the most urgent first."""

    lines: Sequence[Line]
    more: int
    """How many wait besides those."""
    whole: bool
    """Whether the user may see all VMs and pods that could wait."""


class _One(NamedTuple):
    demand: Demand
    short: Shortage | None


class _Known:
    """What is worked out once for a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        short = {one.consumer: one for one in ledger.shortages}
        found = [_One(ledger.demands[consumer], one) for consumer, one in short.items()]
        found += [
            _One(demand, None)
            for consumer, demand in ledger.demands.items()
            if demand.phase is Phase.PENDING and _requests(demand) and consumer not in short
        ]
        self.waiting = sorted(found, key=_urgency)
        places = {(kind, namespace) for kind, namespace, _ in ledger.demands}
        places |= {(kind, namespace) for kind, namespace, _ in ledger.shares}
        self.places = {Consumer(kind, namespace, "") for kind, namespace in places}
        self.seen: dict[frozenset[Consumer], Waiting] = {}
        """What users see who may see these places."""


_KNOWN = Once[_Known]()


async def load(visit: Visit) -> None:
    """Wait for the answers about the namespaces of all that wait or have devices."""
    if (ledger := visit.ledger) is not None:
        places = _KNOWN.get(lambda: _Known(ledger), ledger).places
        await holders.load_consumers(visit, places)


def waiting(visit: Visit, ledger: Ledger) -> Waiting:
    """All that the user may see."""
    known = _KNOWN.get(lambda: _Known(ledger), ledger)
    seen = frozenset(one for one in known.places if holders.may_see(visit, one))
    if seen not in known.seen:
        waiting = [one for one in known.waiting if _place(one.demand.consumer) in seen]
        lines = [_line(visit, ledger, one) for one in waiting[:MOST]]
        known.seen[seen] = Waiting(lines, len(waiting) - len(lines), seen == known.places)
    return known.seen[seen]


def _requests(demand: Demand) -> bool:
    return any(count > 0 for count in demand.requests.values())


def _place(consumer: Consumer) -> Consumer:
    """All VMs or pods of its namespace: a user may see all of them or none."""
    return consumer._replace(name="")


def _urgency(one: _One) -> tuple[bool, bool, object]:
    return one.demand.phase is Phase.STOPPED, one.short is None, one.demand.consumer


def _line(visit: Visit, ledger: Ledger, one: _One) -> Line:
    consumer = one.demand.consumer
    name, url = str(consumer), holders.of_consumer(visit, consumer).url
    if one.short is None:
        return Line("working", name, url, starting_words(one.demand), ())
    answer = start_answer(ledger, consumer, functools.partial(holders.within, visit))
    why = [refusal.words for refusal in answer.refusals] if answer else []
    kind = "off" if one.demand.phase is Phase.STOPPED else "danger"
    return Line(kind, name, url, shortage_words(one.short), why)
