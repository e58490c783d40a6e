"""Keeping the ledger as facts change, at the cost of what depends on them.

After any changes the ledger equals the one that `build` makes of all facts; `build` stays the judge
of that in tests. What is worked out again:

- a stock, when one of its devices changes, or one that is on its node and requests of it;
- the VMs that are still to be placed, as far as their resources are connected with one of which
  something else is free now: they are placed one after the other, and each depends on those before;
- everything, when a node changes: who may start there depends on it.

Ledgers that were given out do not change.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

import msgspec

from laneway.core.ledger.build import add, all_nodes, by_label
from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, NodeFact, Phase
from laneway.core.ledger.ledger import Ledger, Share, Shortage, Stock, Taking
from laneway.core.ledger.placing import STATES, Placing, Shelf, turn_of

K = TypeVar("K")
V = TypeVar("V")
StockKey = tuple[str, str]
_Turn = tuple[int, str, Consumer, str, str]


class Changes(msgspec.Struct):
    """Facts that are new or other than before; None for what is no more."""

    devices: dict[Hashable, DeviceFact | None] = {}
    """By whatever tells one fact from another: two may be about one device."""
    demands: dict[Consumer, Demand | None] = {}
    nodes: dict[str, NodeFact | None] = {}


class _Settled(msgspec.Struct):
    """What is with a stock before anybody is placed elsewhere."""

    owned: dict[Consumer, list[Share]]
    given: dict[Consumer, list[Share]]
    """To those who are on its node."""
    missing: dict[Consumer, int]


class _Todo:
    """What is to be worked out again."""

    def __init__(self) -> None:
        self.everything = False
        self.stocks: set[StockKey] = set()
        self.resources: set[str] = set()
        """Those who request one of these are placed again."""
        self.consumers: set[Consumer] = set()
        """Whose shares must be put together again."""

    def __bool__(self) -> bool:
        return self.everything or bool(self.stocks or self.resources or self.consumers)


class Upkeep:
    """The facts by now, and the ledger of them."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._facts: dict[Hashable, DeviceFact] = {}
        self._groups: dict[StockKey, dict[Hashable, DeviceFact]] = {}
        self._reported: dict[str, NodeFact] = {}
        self._there: dict[StockKey, dict[Consumer, Demand]] = defaultdict(dict)
        """Who is on the node of a stock and requests of it."""
        self._waiting: list[tuple[_Turn, Demand]] = []
        """Who is still to be placed, in turn."""
        self._base: dict[StockKey, Shelf] = {}
        """Before those are placed."""
        self._settled: dict[StockKey, _Settled] = {}
        self._shelves: dict[StockKey, Shelf] = {}
        """After: those of `_base`, or a copy from which more is taken."""
        self._owners: dict[Consumer, set[StockKey]] = defaultdict(set)
        self._where: dict[str, set[StockKey]] = defaultdict(set)
        """The stocks that have a device of this name."""
        self._last: dict[str, set[Consumer]] = defaultdict(set)
        """Who is still to be placed and had a device of this name."""
        self._placed: dict[Consumer, tuple[list[Share], Shortage | None]] = {}
        self._demands: dict[Consumer, Demand] = {}
        self._shares: dict[Consumer, tuple[Share, ...]] = {}
        self._short: dict[Consumer, Shortage] = {}
        self._stocks: dict[StockKey, Stock] = {}

    def apply(self, changes: Changes) -> Ledger:
        """The ledger after these; the same object if they change nothing."""
        todo = _Todo()
        for name, node in changes.nodes.items():
            self._node(name, node, todo)
        for key, fact in changes.devices.items():
            self._device(key, fact, todo)
        for consumer, demand in changes.demands.items():
            self._demand(consumer, demand, todo)
        if todo:
            self.ledger = self._worked_out(todo)
        return self.ledger

    def _node(self, name: str, node: NodeFact | None, todo: _Todo) -> None:
        if self._reported.get(name) == node:
            return
        todo.everything = True
        if node is None:
            del self._reported[name]
        else:
            self._reported[name] = node

    def _device(self, key: Hashable, fact: DeviceFact | None, todo: _Todo) -> None:
        before = self._facts.pop(key, None)
        if fact is not None:
            self._facts[key] = fact
        if before == fact:
            return
        if before is not None:
            stock = before.node, before.resource
            todo.stocks.add(stock)
            del self._groups[stock][key]
            if not self._groups[stock]:
                del self._groups[stock]
        if fact is not None:
            stock = fact.node, fact.resource
            todo.stocks.add(stock)
            self._groups.setdefault(stock, {})[key] = fact

    def _demand(self, consumer: Consumer, demand: Demand | None, todo: _Todo) -> None:
        before = self._demands.pop(consumer, None)
        if demand is not None:
            self._demands[consumer] = demand
        if before == demand:
            return
        todo.consumers.add(consumer)
        if before is not None:
            if _is_there(before):
                for resource in before.requests:
                    todo.stocks.add((before.node, resource))
                    _discard(self._there, (before.node, resource), consumer)
            else:
                todo.resources.update(before.requests)
                del self._waiting[bisect_left(self._waiting, turn_of(before), key=_turn)]
                del self._placed[consumer]
                for name in before.last:
                    _discard(self._last, name, consumer)
        if demand is not None:
            if _is_there(demand):
                for resource in demand.requests:
                    todo.stocks.add((demand.node, resource))
                    self._there[demand.node, resource][consumer] = demand
            else:
                todo.resources.update(demand.requests)
                insort(self._waiting, (turn_of(demand), demand), key=_turn)
                self._placed[consumer] = [], None
                for name in demand.last:
                    self._last[name].add(consumer)

    def _worked_out(self, todo: _Todo) -> Ledger:
        known = self.ledger
        if todo.everything or any(node not in self._reported for node, _ in todo.stocks):
            nodes = all_nodes(self._reported.values(), self._groups)
            known = msgspec.structs.replace(known, nodes=nodes, labelled=by_label(nodes.values()))
            todo.stocks |= self._groups.keys() | self._base.keys() | self._there.keys()
            for _, demand in self._waiting:
                todo.resources.update(demand.requests)
        for key in todo.stocks:
            self._settle(key, known, todo)
        changed = todo.stocks | self._place(known, todo)
        for consumer in todo.consumers:
            self._sum_up(consumer)
        return self._put_together(known, changed)

    def _settle(self, key: StockKey, known: Ledger, todo: _Todo) -> None:
        """One stock, its owners, and those who are on its node."""
        before, shelf = self._base.pop(key, None), None
        if group := self._groups.get(key):
            devices: dict[str, DeviceFact] = {}
            for fact in group.values():
                add(devices, fact)
            shelf = Shelf(devices.values(), known.nodes[key[0]].closed)
        was = self._settled.pop(key, _NOTHING)
        now = _settled(key, shelf, self._there.get(key, {}).values())
        if now != _NOTHING:
            self._settled[key] = now
        for consumer in was.owned.keys() - now.owned.keys():
            _discard(self._owners, consumer, key)
        for consumer in now.owned:
            self._owners[consumer].add(key)
        if was.owned != now.owned:
            for consumer in was.owned.keys() | now.owned.keys():
                self._place_again(consumer, todo)
        todo.consumers.update(was.owned, was.given, was.missing, now.owned, now.given, now.missing)
        self._name(key, _names(before), _names(shelf), todo)
        free = [] if before is None else before.free
        taken_from = self._shelves.pop(key, None) is not before
        if taken_from or free != ([] if shelf is None else shelf.free):
            todo.resources.add(key[1])
        if shelf is not None:
            self._base[key] = self._shelves[key] = shelf

    def _name(self, key: StockKey, before: set[str], after: set[str], todo: _Todo) -> None:
        """Know where devices are that were in use last."""
        for name in before ^ after:
            if name in after:
                self._where[name].add(key)
            else:
                _discard(self._where, name, key)
            for consumer in self._last.get(name, ()):
                self._place_again(consumer, todo)

    def _place_again(self, consumer: Consumer, todo: _Todo) -> None:
        if consumer in self._placed:
            todo.resources.update(self._demands[consumer].requests)

    def _place(self, known: Ledger, todo: _Todo) -> set[StockKey]:
        """Those whose turn comes after something that changed; the stocks that change by it."""
        again = self._connected(todo.resources)
        if not again and not todo.resources:
            return set()
        changed = set()
        for key, shelf in self._base.items():
            if key[1] in todo.resources and self._shelves[key] is not shelf:
                self._shelves[key] = shelf
                changed.add(key)
        homes = {
            name: min(self._where[name])[0]
            for demand in again
            for name in demand.last
            if name in self._where
        }
        owned = {demand.consumer: self._owned(demand.consumer) for demand in again}
        shares = {consumer: list(own) for consumer, own in owned.items()}
        work = Placing(
            known.nodes,
            known.labelled,
            shelves=self._shelves,
            kept=self._base,
            shares=shares,
            homes=homes,
            resources=todo.resources,
        )
        for demand in again:
            work.place(demand)
        short = {shortage.consumer: shortage for shortage in work.shortages}
        for consumer, own in owned.items():
            more = work.shares[consumer][len(own) :]
            self._placed[consumer] = more, short.get(consumer)
        todo.consumers.update(owned)
        return changed | work.changed

    def _connected(self, resources: set[str]) -> list[Demand]:
        """Who requests one of these, in turn; adds what they request as well."""
        several = [demand for _, demand in self._waiting if len(demand.requests) > 1]
        count = -1
        while count != len(resources):
            count = len(resources)
            for demand in several:
                if not resources.isdisjoint(demand.requests):
                    resources.update(demand.requests)
        return [demand for _, demand in self._waiting if not resources.isdisjoint(demand.requests)]

    def _owned(self, consumer: Consumer) -> list[Share]:
        keys = sorted(self._owners.get(consumer, ()))
        return [share for key in keys for share in self._settled[key].owned[consumer]]

    def _sum_up(self, consumer: Consumer) -> None:
        """What one has, and what he lacks."""
        shares = self._owned(consumer)
        demand = self._demands.get(consumer)
        short: Shortage | None = None
        if demand is not None and _is_there(demand):
            missing = {}
            for resource in sorted(demand.requests):
                settled = self._settled.get((demand.node, resource), _NOTHING)
                shares += settled.given.get(consumer, [])
                if consumer in settled.missing:
                    missing[resource] = settled.missing[consumer]
            if missing:
                short = Shortage(consumer, demand.phase, missing)
        elif demand is not None:
            more, short = self._placed[consumer]
            shares += more
        _put(self._shares, consumer, tuple(shares))
        _put(self._short, consumer, short)

    def _put_together(self, known: Ledger, changed: set[StockKey]) -> Ledger:
        others = {key for key in changed if (key in self._stocks) != (key in self._shelves)}
        for key in changed:
            shelf = self._shelves.get(key)
            _put(self._stocks, key, None if shelf is None else shelf.stock())
        if others:
            self._stocks = dict(sorted(self._stocks.items()))
        resources = {resource for _, resource in changed}
        homes = dict(known.homes)
        if others:
            found: dict[str, list[str]] = defaultdict(list)
            for node, resource in self._stocks:
                found[resource].append(node)
            homes = {resource: tuple(found[resource]) for resource in sorted(found)}
        free = {resource: known.free.get(resource, {}) for resource in homes}
        for resource in resources & homes.keys():
            counts = ((node, len(self._shelves[node, resource].free)) for node in homes[resource])
            free[resource] = {node: count for node, count in counts if count}
        short = sorted(self._short.items(), key=lambda one: turn_of(self._demands[one[0]]))
        return msgspec.structs.replace(
            known,
            stocks=dict(self._stocks),
            shortages=tuple(shortage for _, shortage in short),
            demands=dict(self._demands),
            shares=dict(self._shares),
            free=free,
            homes=homes,
        )


_NOTHING = _Settled({}, {}, {})


def _settled(key: StockKey, shelf: Shelf | None, there: Iterable[Demand]) -> _Settled:
    node, resource = key
    found = _Settled({}, {}, {})
    if shelf is not None:
        for owner, share in shelf.reported():
            found.owned.setdefault(owner, []).append(share)
    for demand in sorted(there, key=turn_of):
        consumer = demand.consumer
        count = demand.requests[resource] - len(found.owned.get(consumer, ()))
        if count <= 0:
            continue
        names: list[str] = []
        if shelf is not None:
            names = shelf.take(count, Taking(STATES[demand.phase], consumer), demand.last)
        if names:
            found.given[consumer] = [Share(node, resource, name, True) for name in names]
        # What runs has what it needs, even if from a source that is not known.
        if len(names) < count and demand.phase is not Phase.RUNNING:
            found.missing[consumer] = count - len(names)
    return found


def _is_there(demand: Demand) -> bool:
    """Whether one takes from its node before all who are still to be placed."""
    return bool(demand.node) and demand.phase is not Phase.STOPPED


def _turn(entry: tuple[_Turn, Demand]) -> _Turn:
    return entry[0]


def _names(shelf: Shelf | None) -> set[str]:
    return set() if shelf is None else {device.name for device in shelf.devices}


def _discard(index: dict[K, set[V]] | dict[K, dict[V, Demand]], key: K, value: V) -> None:
    """Take out of an index that may not have it, and the entry with its last value."""
    if (values := index.get(key)) is None:
        return
    if isinstance(values, dict):
        values.pop(value, None)
    else:
        values.discard(value)
    if not values:
        del index[key]


def _put(into: dict[K, V], key: K, value: V | None) -> None:
    """Empty is the same as absent."""
    if value:
        into[key] = value
    else:
        into.pop(key, None)
