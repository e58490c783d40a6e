"""Why VMs cannot start: the facts of the refusals, from the ledger."""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable

from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger, State, Stock
from laneway.core.ledger.room import Room
from laneway.core.phrases import closest
from laneway.core.refusals import InsufficientDevices, NoNodeFits, NoNodeHasResource, Refusal
from laneway.core.refusals.capacity import NodeDevices

_NODES = 3
"""So many nodes are looked at closely."""
_LISTED = 12
"""So many names are listed where one is not known."""


def why_not(
    ledger: Ledger, room: Room, vms: int, naming: Callable[[Consumer], str] = str
) -> tuple[Refusal, ...]:
    """What is missing for so many VMs; nothing where each resource would be enough."""
    refusals: list[Refusal] = []
    for resource in room.resources:
        if resource not in ledger.homes:
            refusals.append(NoNodeHasResource(resource, _known(resource, ledger)))
        elif room.alone(resource) < vms:
            refusals.append(_short(ledger, room, resource, vms, naming))
    if not refusals and room.total < vms:
        refusals.append(_apart(room, vms))
    return tuple(refusals)


def _known(resource: str, ledger: Ledger) -> tuple[str, ...]:
    """Names that there are, those first that may be meant."""
    found = dict.fromkeys((*closest(resource, ledger.homes), *ledger.homes))
    return tuple(itertools.islice(found, _LISTED))


def devices_on(
    stock: Stock, room: Room | None = None, naming: Callable[[Consumer], str] = str
) -> NodeDevices:
    """The holders of a stock's devices; those released in `room` are free again."""
    gone = room.gone if room is not None else ()
    takings = Counter(taking for taking in stock.taken.values() if taking.consumer not in gone)
    by_state: dict[State, Counter[str]] = {state: Counter() for state in State}
    for taking, count in takings.items():
        by_state[taking.state][naming(taking.consumer)] += count
    if stock.counts.unhealthy or gone:
        for device in stock.devices:
            holder = stock.taken.get(device.name)
            why = device.unhealthy or stock.closed
            if why and (holder is None or holder.consumer in gone):
                by_state[State.UNHEALTHY][why] += 1
    lost = by_state[State.UNHEALTHY].total()
    return NodeDevices(
        node=stock.node,
        total=stock.counts.total,
        free=stock.counts.total - takings.total() - lost,
        held=_most(by_state[State.HELD]),
        reserved=_most(by_state[State.RESERVED]),
        wanted=_most(by_state[State.WANTED]),
        unhealthy=_most(by_state[State.UNHEALTHY]),
    )


def _most(names: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(names.items(), key=lambda item: (-item[1], item[0])))


def _short(
    ledger: Ledger, room: Room, resource: str, vms: int, naming: Callable[[Consumer], str]
) -> InsufficientDevices:
    free, allowed = room.free[resource], room.allowed
    homes = [node for node in ledger.homes[resource] if allowed is None or node in allowed]
    best = heapq.nsmallest(_NODES, free, key=lambda node: (-free[node], node))
    best += itertools.islice((node for node in homes if node not in free), _NODES - len(best))
    return InsufficientDevices(
        resource=resource,
        count=room.resources[resource],
        vms=vms,
        possible=room.alone(resource),
        nodes=tuple(devices_on(ledger.stocks[node, resource], room, naming) for node in best),
        others=len(homes) - len(best),
        others_free=sum(free.values()) - sum(free.get(node, 0) for node in best),
        chosen=allowed is not None,
    )


def _apart(room: Room, vms: int) -> NoNodeFits:
    lacking: list[tuple[int, str, str, int, int]] = []
    nodes = {node for free in room.free.values() for node in free}
    for node in nodes - room.rooms.keys():
        missing = [
            (resource, count, free)
            for resource, count in room.resources.items()
            if (free := room.free[resource].get(node, 0)) < count
        ]
        # That of which the most is missing stands for the node.
        resource, count, free = max(missing, key=lambda one: one[1] - one[2])
        lacking.append((count - free, node, resource, count, free))
    nearest = heapq.nsmallest(_NODES, lacking)
    return NoNodeFits(
        vms=vms,
        possible=room.total,
        lacks=tuple((node, resource, count, free) for _, node, resource, count, free in nearest),
        others=len(lacking) - len(nearest),
    )
