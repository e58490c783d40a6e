"""Making the ledger from facts.

The same facts give the same ledger in whatever order they come. Devices go first to those who have
them: an owner that the kubelet reported, then VMs and pods on a node. Those that are still to be
placed follow, the ones that are to run before the ones that are stopped, and older ones before
younger; so of two that race for the last device the younger one is short.

A VM that is not placed yet is placed as a whole: on the node of the devices that
it had last if everything fits there, otherwise on the node where the least would be left over, so
that what stays free stays in large pieces. Who fits nowhere takes nothing and is short. What he
still has on a node where he cannot be is no other's, and of no use to him either.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, Facts, NodeFact, Phase
from laneway.core.ledger.ledger import Counts, Ledger, Share, Shortage, State, Stock, Taking, serves

_FEW = 32
"""So many nodes are sorted by what is free there; more are looked up in an order that is kept."""

LABEL_HOSTNAME = "kubernetes.io/hostname"

_STATES = {
    Phase.RUNNING: State.HELD,
    Phase.PENDING: State.WANTED,
    Phase.STOPPED: State.RESERVED,
}


def build(facts: Facts) -> Ledger:
    """The ledger of these facts."""
    work = _Work(facts)
    demands: dict[Consumer, Demand] = {}
    for demand in sorted(facts.demands, key=_turn):
        if demand.consumer not in demands:
            demands[demand.consumer] = demand
            work.place(demand)
    return work.ledger(demands)


def _turn(demand: Demand) -> tuple[int, str, Consumer, str, str]:
    if demand.phase is Phase.STOPPED:
        nearness = 3
    else:
        nearness = 0 if demand.phase is Phase.RUNNING else 1 if demand.node else 2
    # The last two only tell apart what should not be there twice.
    return (
        nearness,
        demand.created,
        demand.consumer,
        demand.node,
        str(sorted(demand.requests.items())),
    )


class _Shelf:
    """A stock while it is made."""

    def __init__(self, devices: Sequence[DeviceFact], closed: str) -> None:
        self.devices = devices
        self.closed = closed
        self.taken: dict[str, Taking] = {}
        self.unhealthy = 0
        self.free: list[str] = []
        """Names, the first one last."""
        for device in reversed(devices):
            if device.owner is not None:
                self.taken[device.name] = Taking(State.HELD, device.owner)
            elif device.unhealthy or closed:
                self.unhealthy += 1
            else:
                self.free.append(device.name)

    def take(self, count: int, taking: Taking, liked: Sequence[str]) -> list[str]:
        """Take so many of the free ones, or all; those that are liked first."""
        count = min(count, len(self.free))
        names = [name for name in dict.fromkeys(liked) if name in self.free][:count]
        for name in names:
            self.free.remove(name)
        names += [self.free.pop() for _ in range(count - len(names))]
        self.taken.update(dict.fromkeys(names, taking))
        return names

    def counts(self) -> Counts:
        by_state = Counter(taking.state for taking in self.taken.values())
        return Counts(
            total=len(self.devices),
            held=by_state[State.HELD],
            reserved=by_state[State.RESERVED],
            wanted=by_state[State.WANTED],
            free=len(self.free),
            unhealthy=self.unhealthy,
        )


class _Work:
    """Stocks, and orders in which a place is found without looking at every node."""

    def __init__(self, facts: Facts) -> None:
        groups = _grouped(facts.devices)
        self.nodes = _nodes(facts.nodes, groups)
        self.labelled = _labelled(self.nodes.values())
        self.shelves: dict[tuple[str, str], _Shelf] = {}
        self.orders: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By resource: how much is free on each node, the least first."""
        self.shares: dict[Consumer, list[Share]] = defaultdict(list)
        self.homes: dict[str, str] = {}
        """The node of every device that were in use last."""
        self.shortages: list[Shortage] = []
        self._allowed: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}
        known = {name for demand in facts.demands for name in demand.last}
        for (node, resource), group in sorted(groups.items()):
            devices = sorted(group.values(), key=_name)
            closed = self.nodes[node].closed
            shelf = self.shelves[node, resource] = _Shelf(devices, closed)
            self.orders[resource].append((len(shelf.free), node))
            for device in devices:
                if device.owner is not None:
                    usable = not (device.unhealthy or closed)
                    self.shares[device.owner].append(Share(node, resource, device.name, usable))
            for name in known.intersection(group):
                self.homes.setdefault(name, node)
        for order in self.orders.values():
            order.sort()

    def place(self, demand: Demand) -> None:
        """Give a demand what it does not have already, or note what is missing."""
        had = Counter(
            share.resource
            for share in self.shares[demand.consumer]
            if serves(share, demand, self.nodes)
        )
        open_ = {
            resource: count - had[resource]
            for resource, count in demand.requests.items()
            if count > had[resource]
        }
        if not open_:
            return
        if demand.node:
            missing = self._take(demand, demand.node, open_)
        elif node := self._home(demand, open_) or self._tightest(demand, open_):
            missing = self._take(demand, node, open_)
        else:
            missing = open_
        # What runs has what it needs, even if from a source that is not known.
        if missing and demand.phase is not Phase.RUNNING:
            self.shortages.append(Shortage(demand.consumer, demand.phase, missing))

    def _take(self, demand: Demand, node: str, wanted: Mapping[str, int]) -> dict[str, int]:
        """What is missing on the node."""
        missing = {}
        taking = Taking(_STATES[demand.phase], demand.consumer)
        for resource, count in sorted(wanted.items()):
            taken: list[str] = []
            if shelf := self.shelves.get((node, resource)):
                before = len(shelf.free)
                taken = shelf.take(count, taking, demand.last)
                self._moved(resource, node, before, len(shelf.free))
                self.shares[demand.consumer] += [
                    Share(node, resource, name, True) for name in taken
                ]
            if len(taken) < count:
                missing[resource] = count - len(taken)
        return missing

    def _moved(self, resource: str, node: str, before: int, after: int) -> None:
        order = self.orders[resource]
        del order[bisect_left(order, (before, node))]
        insort(order, (after, node))

    def _home(self, demand: Demand, wanted: Mapping[str, int]) -> str:
        """The node of what it has or had, if all of the rest fits there."""
        allowed = self._nodes_for(demand)
        nodes = [share.node for share in self.shares[demand.consumer]]
        nodes += [self.homes[name] for name in demand.last if name in self.homes]
        for node in dict.fromkeys(nodes):
            if (allowed is None or node in allowed) and self._fits(node, wanted):
                return node
        return ""

    def _tightest(self, demand: Demand, wanted: Mapping[str, int]) -> str:
        """The node on which everything fits and the least of what is rarest is left over."""
        rarest = min(wanted, key=lambda resource: (self._wide(resource, wanted), resource))
        order = self.orders.get(rarest, [])
        allowed = self._nodes_for(demand)
        if allowed is not None and len(allowed) <= _FEW:
            order = sorted((self._free(node, rarest), node) for node in allowed)
        for at in range(bisect_left(order, (wanted[rarest], "")), len(order)):
            node = order[at][1]
            if (allowed is None or node in allowed) and self._fits(node, wanted):
                return node
        return ""

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
        shelf = self.shelves.get((node, resource))
        return len(shelf.free) if shelf else 0

    def _fits(self, node: str, wanted: Mapping[str, int]) -> bool:
        return all(self._free(node, resource) >= count for resource, count in wanted.items())

    def ledger(self, demands: Mapping[Consumer, Demand]) -> Ledger:
        stocks: dict[tuple[str, str], Stock] = {}
        free: dict[str, dict[str, int]] = {resource: {} for resource in sorted(self.orders)}
        homes: dict[str, list[str]] = {resource: [] for resource in free}
        for (node, resource), shelf in self.shelves.items():
            counts = shelf.counts()
            stocks[node, resource] = Stock(
                node, resource, tuple(shelf.devices), shelf.taken, counts, shelf.closed
            )
            homes[resource].append(node)
            if counts.free:
                free[resource][node] = counts.free
        return Ledger(
            stocks=stocks,
            shortages=tuple(self.shortages),
            demands=demands,
            shares={consumer: tuple(shares) for consumer, shares in self.shares.items() if shares},
            nodes=self.nodes,
            free=free,
            homes={resource: tuple(nodes) for resource, nodes in homes.items()},
            labelled=self.labelled,
        )


_Groups = dict[tuple[str, str], dict[str, DeviceFact]]


def _grouped(devices: Iterable[DeviceFact]) -> _Groups:
    groups: _Groups = defaultdict(dict)
    for device in devices:
        group = groups[device.node, device.resource]
        known = group.get(device.name)
        group[device.name] = device if known is None else _merged(known, device)
    return groups


def _merged(one: DeviceFact, other: DeviceFact) -> DeviceFact:
    """What two facts about one device come to, whichever comes first."""
    owners = [fact.owner for fact in (one, other) if fact.owner is not None]
    return msgspec.structs.replace(
        one,
        unhealthy=max(one.unhealthy, other.unhealthy),
        owner=min(owners) if owners else None,
    )


def _nodes(reported: Sequence[NodeFact] | None, groups: _Groups) -> dict[str, NodeFact]:
    """Every node that there is, and every one that a device says it is on."""
    nodes = {node.name: node for node in sorted(reported or (), key=_name)}
    closed = "" if reported is None else "the cluster has no such node"
    for name in sorted({node for node, _ in groups} - nodes.keys()):
        nodes[name] = NodeFact(name, {LABEL_HOSTNAME: name}, closed)
    return nodes


def _labelled(nodes: Iterable[NodeFact]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for node in nodes:
        for label in node.labels.items():
            found[label].add(node.name)
    return {label: frozenset(names) for label, names in found.items()}


def _name(fact: DeviceFact | NodeFact) -> str:
    return fact.name
