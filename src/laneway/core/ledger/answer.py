"""Answering whether VMs can start.

VMs that are alike fit independently of each other: a node with 5 free devices has room for two
VMs with two each, whichever VM comes there first. So the room in the cluster is a sum
over nodes, the answer is exact and not a trial, and where the VMs are put in the meantime
changes nothing.

A roll-out is followed step by step: as many new ones start as there may be and is room for, then as
many old ones end as may be missing, until all are replaced or neither is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from laneway.core.ledger.explain import why_not
from laneway.core.ledger.facts import Consumer, Demand, Phase
from laneway.core.ledger.ledger import Ledger, serves
from laneway.core.ledger.question import Answer, Request
from laneway.core.ledger.room import Room
from laneway.core.refusals import NodeNotFound, NoNodeMatches, Refusal, RolloutBlocked

_LISTED = 12
"""So many names are listed where one is not known."""


def can_start(ledger: Ledger, request: Request, naming: Callable[[Consumer], str] = str) -> Answer:
    """Whether the VMs can start, where, and if not why.

    `naming`: what those are called who have devices, for people who may not know all of them.
    """
    resources = {name: count for name, count in sorted(request.resources.items()) if count > 0}
    vms = max(request.vms, 0)
    allowed, refusals = _allowed(ledger, request)
    room = Room(ledger, resources, allowed)
    replacing = dict.fromkeys(request.replacing)
    existing = [ledger.demands[consumer] for consumer in replacing if consumer in ledger.demands]
    kept = [old for old in existing if _stays(ledger, old, resources, allowed)][:vms]
    needed = vms - len(kept)
    if not needed:
        refusals = ()
    started = 0 if refusals else needed
    if needed and resources and not refusals:
        staying = {old.consumer for old in kept}
        # Those that do not run anyway end first.
        leaving = sorted(
            (old for old in existing if old.consumer not in staying),
            key=lambda old: old.phase is Phase.RUNNING,
        )
        started = _roll_out(room, request, needed, leaving)
        if started < needed:
            refusals = _stuck(room, request, started, leaving) + why_not(
                ledger, room, needed, naming
            )
    return Answer(
        vms=vms,
        kept=len(kept),
        started=started,
        room=tuple(sorted(room.rooms.items()) if room.gone else room.rooms.items()),
        change=_change(existing, resources, vms) if replacing else (),
        refusals=refusals,
    )


def _allowed(ledger: Ledger, request: Request) -> tuple[frozenset[str] | None, tuple[Refusal, ...]]:
    """The nodes that may be used, None for all; why there is none of those requested."""
    allowed = frozenset(request.nodes) if request.nodes else None
    if allowed is not None and (unknown := sorted(allowed - ledger.nodes.keys())):
        homes = sorted({node for node, _ in ledger.stocks})
        return allowed, (NodeNotFound(unknown[0], tuple(homes[:_LISTED])),)
    if request.selector:
        labelled = ledger.with_labels(request.selector)
        allowed = labelled if allowed is None else allowed & labelled
        if not allowed:
            labels = tuple(sorted(request.selector.items()))
            return allowed, (NoNodeMatches(labels, tuple(sorted(request.nodes))),)
    return allowed, ()


def _stays(
    ledger: Ledger, old: Demand, resources: Mapping[str, int], allowed: frozenset[str] | None
) -> bool:
    """Whether a VM that exists is one of those that are requested already."""
    if {name: count for name, count in old.requests.items() if count > 0} != resources:
        return False
    shares = [one for one in ledger.shares.get(old.consumer, ()) if serves(one, old, ledger.nodes)]
    nodes = {share.node for share in shares} | ({old.node} if old.node else set())
    if allowed is not None and not nodes <= allowed:
        return False
    return old.phase is Phase.RUNNING or Counter(share.resource for share in shares) == resources


def _unavailable(request: Request) -> int:
    if request.unavailable is not None:
        return max(request.unavailable, 0)
    return 0 if request.surge > 0 else max(request.vms, 0)


def _roll_out(room: Room, request: Request, needed: int, leaving: list[Demand]) -> int:
    """How many can start; takes those that could end meanwhile out of `leaving`."""
    vms = max(request.vms, 0)
    kept = vms - needed
    most = vms + max(request.surge, 0)
    least = vms - _unavailable(request)
    started = 0
    while True:
        running = kept + started + len(leaving)
        more = max(min(most - running, needed - started, room.total - started), 0)
        started += more
        ending = max(min(running + more - least, len(leaving)), 0)
        if started == needed or not (more or ending):
            return started
        for old in leaving[:ending]:
            room.release(old.consumer)
        del leaving[:ending]


def _stuck(
    room: Room, request: Request, started: int, leaving: Sequence[Demand]
) -> tuple[Refusal, ...]:
    """What there is to say about a roll-out where old VMs cannot end."""
    if not leaving:
        return ()
    return (
        RolloutBlocked(
            replaced=started,
            vms=max(request.vms, 0),
            running=len(leaving),
            surge=max(request.surge, 0),
            resources=tuple(room.resources.items()),
        ),
    )


def _change(
    existing: Sequence[Demand], resources: Mapping[str, int], vms: int
) -> tuple[tuple[str, int], ...]:
    """How many devices more or less are requested, of each resource where it differs."""
    change: Counter[str] = Counter()
    for resource, count in resources.items():
        change[resource] += count * vms
    for old in existing:
        for resource, count in old.requests.items():
            change[resource] -= max(count, 0)
    return tuple((resource, count) for resource, count in sorted(change.items()) if count)
