"""Stocks from which is taken, and the place of a VM that is not placed yet.

A VM that is not placed yet is placed as a whole: on the node of the devices that
it had last if everything fits there, otherwise on the node where the least would be left over, so
that what stays free stays in large pieces. Who fits nowhere takes nothing and is short. What he
still has on a node where he cannot be is no other's, and of no use to him either.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, NodeFact, Phase
from laneway.core.ledger.ledger import Counts, Share, Shortage, State, Stock, Taking, serves

_FEW = 32
"""So many nodes are sorted by what is free there; more are looked up in an order that is kept."""

STATES = {
    Phase.RUNNING: State.HELD,
    Phase.PENDING: State.WANTED,
    Phase.STOPPED: State.RESERVED,
}


def turn_of(demand: Demand) -> tuple[int, str, Consumer, str, str]:
    if demand.phase is Phase.STOPPED:
        nearness = 3
    elif not demand.node:
        nearness = 2
    else:
        nearness = 0 if demand.phase is Phase.RUNNING else 1
    # The last two only tell apart what should not be there twice.
    return (
        nearness,
        demand.created,
        demand.consumer,
        demand.node,
        str(sorted(demand.requests.items())),
    )


class Shelf:
    """A stock while it is made."""

    def __init__(self, devices: Iterable[DeviceFact], closed: str) -> None:
        """Of at least one device, each named once."""
        self.devices = tuple(sorted(devices, key=by_name))
        self.closed = closed
        self.taken: dict[str, Taking] = {}
        self.unhealthy = 0
        self.free: list[str] = []
        """Names, the first one last."""
        for device in reversed(self.devices):
            if device.owner is not None:
                self.taken[device.name] = Taking(State.HELD, device.owner)
            elif device.unhealthy or closed:
                self.unhealthy += 1
            else:
                self.free.append(device.name)

    def reported(self) -> Iterator[tuple[Consumer, Share]]:
        """The devices of each holder, as the kubelet reported them."""
        for one in self.devices:
            if one.owner is not None:
                usable = not (one.unhealthy or self.closed)
                yield one.owner, Share(one.node, one.resource, one.name, usable)

    def copy(self) -> Shelf:
        """Another one from which can be taken as well."""
        other = Shelf.__new__(Shelf)
        other.devices, other.closed, other.unhealthy = self.devices, self.closed, self.unhealthy
        other.taken, other.free = dict(self.taken), list(self.free)
        return other

    def stock(self) -> Stock:
        """As it is now; nothing may be taken any more."""
        one = self.devices[0]
        return Stock(one.node, one.resource, self.devices, self.taken, self._counts(), self.closed)

    def take(self, count: int, taking: Taking, liked: Sequence[str]) -> list[str]:
        """Take so many of the free ones, or all; those that are liked first."""
        count = min(count, len(self.free))
        names = [name for name in dict.fromkeys(liked) if name in self.free][:count]
        for name in names:
            self.free.remove(name)
        names += [self.free.pop() for _ in range(count - len(names))]
        self.taken.update(dict.fromkeys(names, taking))
        return names

    def _counts(self) -> Counts:
        by_state = Counter(taking.state for taking in self.taken.values())
        return Counts(
            total=len(self.devices),
            held=by_state[State.HELD],
            reserved=by_state[State.RESERVED],
            wanted=by_state[State.WANTED],
            free=len(self.free),
            unhealthy=self.unhealthy,
        )


class Choice(NamedTuple):
    """Where one is placed, and what that depends on."""

    wanted: Mapping[str, int]
    """What he does not have already: at least one device."""
    node: str
    """Empty: nowhere is room."""
    near: tuple[str, ...] = ()
    """The nodes that come before all others: of what he has or had."""
    tightness: tuple[int, str] | None = None
    """By which the node was found among all: what was free of the rarest resource, and its name."""


class Placing:
    """Stocks, and orders in which a place is found without looking at every node."""

    def __init__(
        self,
        nodes: Mapping[str, NodeFact],
        labelled: Mapping[tuple[str, str], frozenset[str]],
        *,
        free: dict[tuple[str, str], int],
        shares: Mapping[Consumer, list[Share]],
        homes: Mapping[str, str],
        resources: Iterable[str],
    ) -> None:
        """`free`: how many devices of each stock. `shares`: what the kubelet reported.

        `homes`: nodes of devices that were in use last. `resources`: those of which something may
        be requested; of others nothing is.
        """
        self.nodes = nodes
        self.labelled = labelled
        self.free = free
        self.homes = dict(homes)
        self.shares: dict[Consumer, list[Share]] = defaultdict(list, shares)
        self.orders: dict[str, list[tuple[int, str]]] = {name: [] for name in resources}
        """By resource: how much is free on each node, the least first."""
        self._allowed: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}
        for (node, resource), count in free.items():
            if resource in self.orders:
                self.orders[resource].append((count, node))
        for order in self.orders.values():
            order.sort()

    def choose(self, demand: Demand) -> Choice | None:
        """Where what one does not have already can be; None if he has everything."""
        had = Counter(
            share.resource
            for share in self.shares[demand.consumer]
            if serves(share, demand, self.nodes)
        )
        wanted = {
            resource: count - had[resource]
            for resource, count in demand.requests.items()
            if count > had[resource]
        }
        if not wanted:
            return None
        if demand.node:
            return Choice(wanted, demand.node)
        nodes = [share.node for share in self.shares[demand.consumer]]
        nodes += [self.homes[name] for name in demand.last if name in self.homes]
        near = tuple(dict.fromkeys(nodes))
        if node := self._first(demand, near, wanted):
            return Choice(wanted, node, near)
        found = self._tightest(demand, wanted)
        return Choice(wanted, "" if found is None else found[1], near, found)

    def took(self, shares: Iterable[Share]) -> None:
        """These devices are no longer free."""
        for (node, resource), count in Counter((one.node, one.resource) for one in shares).items():
            before = self.free[node, resource]
            self.free[node, resource] = before - count
            order = self.orders[resource]
            del order[bisect_left(order, (before, node))]
            insort(order, (before - count, node))

    def _first(self, demand: Demand, nodes: Iterable[str], wanted: Mapping[str, int]) -> str:
        """The first of these on which everything fits."""
        allowed = self._nodes_for(demand)
        for node in nodes:
            if (allowed is None or node in allowed) and self._fits(node, wanted):
                return node
        return ""

    def _tightest(self, demand: Demand, wanted: Mapping[str, int]) -> tuple[int, str] | None:
        """The node on which everything fits and the least of what is rarest is left over."""
        rarest = min(wanted, key=lambda resource: (self._wide(resource, wanted), resource))
        order = self.orders.get(rarest, [])
        allowed = self._nodes_for(demand)
        if allowed is not None and len(allowed) <= _FEW:
            order = sorted((self._free(node, rarest), node) for node in allowed)
        for at in range(bisect_left(order, (wanted[rarest], "")), len(order)):
            node = order[at][1]
            if (allowed is None or node in allowed) and self._fits(node, wanted):
                return order[at]
        return None

    def _wide(self, resource: str, wanted: Mapping[str, int]) -> int:
        """How many nodes have enough of one resource."""
        order = self.orders.get(resource, [])
        return len(order) - bisect_left(order, (wanted[resource], ""))

    def _nodes_for(self, demand: Demand) -> frozenset[str] | None:
        """None: any node."""
        if not demand.selector:
            return None
        labels = tuple(sorted(demand.selector.items()))
        if labels not in self._allowed:
            self._allowed[labels] = frozenset.intersection(
                *(self.labelled.get(label, frozenset()) for label in labels)
            )
        return self._allowed[labels]

    def _free(self, node: str, resource: str) -> int:
        return self.free.get((node, resource), 0)

    def _fits(self, node: str, wanted: Mapping[str, int]) -> bool:
        return all(self._free(node, resource) >= count for resource, count in wanted.items())


def take(
    demand: Demand, choice: Choice, shelf_of: Callable[[tuple[str, str]], Shelf | None]
) -> tuple[tuple[Share, ...], Shortage | None]:
    """Take what was chosen from the stocks; what is missing."""
    missing = {}
    shares: list[Share] = []
    taking = Taking(STATES[demand.phase], demand.consumer)
    for resource, count in sorted(choice.wanted.items()):
        taken: list[str] = []
        if choice.node and (shelf := shelf_of((choice.node, resource))):
            taken = shelf.take(count, taking, demand.last)
            shares += [Share(choice.node, resource, name, True) for name in taken]
        if len(taken) < count:
            missing[resource] = count - len(taken)
    # What runs has what it needs, even if from a source that is not known.
    if missing and demand.phase is not Phase.RUNNING:
        return tuple(shares), Shortage(demand.consumer, demand.phase, missing)
    return tuple(shares), None


def by_name(fact: DeviceFact | NodeFact) -> str:
    return fact.name
