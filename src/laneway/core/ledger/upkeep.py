"""Keeping the ledger as facts change, at the cost of what depends on them.

After any changes the ledger equals the one that `build` makes of all facts; `build` stays the judge
of that in tests. What is worked out again:

- a stock, when one of its devices changes, or one that is on its node and requests of it;
- the place of a VM that is still to be placed, when what it looked at differs (`waiting`);
- of a node that opens or closes its stocks, of one whose labels change the places of those who ask
  for such a label: a node's labels change often, and few of them are ever asked for.

Ledgers that were given out do not change.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

import msgspec

from laneway.core.ledger.build import add, all_nodes
from laneway.core.ledger.facts import Consumer, Demand, DeviceFact, NodeFact, Phase
from laneway.core.ledger.ledger import Ledger, Share, Shortage, Stock, Taking
from laneway.core.ledger.placing import STATES, Shelf, turn_of
from laneway.core.ledger.waiting import Waiting

K = TypeVar("K")
V = TypeVar("V")
StockKey = tuple[str, str]


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
        self.nodes: set[str] = set()
        self.come_or_gone = False
        """Whether nodes are reported that were not, or no longer."""
        self.stocks: set[StockKey] = set()
        self.consumers: set[Consumer] = set()
        """Whose shares must be put together again."""

    def __bool__(self) -> bool:
        return bool(self.nodes or self.stocks or self.consumers)


class Upkeep:
    """The facts by now, and the ledger of them."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self._facts: dict[Hashable, DeviceFact] = {}
        self._groups: dict[StockKey, dict[Hashable, DeviceFact]] = {}
        self._reported: dict[str, NodeFact] = {}
        self._there: dict[StockKey, dict[Consumer, Demand]] = defaultdict(dict)
        """Who is on the node of a stock and requests of it."""
        self._waiting = Waiting()
        self._settled: dict[StockKey, _Settled] = {}
        self._owners: dict[Consumer, set[StockKey]] = defaultdict(set)
        self._where: dict[str, tuple[StockKey, ...]] = {}
        """The stocks that have a device of this name: nearly always one."""
        self._last: dict[str, set[Consumer]] = defaultdict(set)
        """Who is still to be placed and had a device of this name."""
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
        before = self._reported.get(name)
        if before == node:
            return
        todo.nodes.add(name)
        todo.come_or_gone |= before is None or node is None
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
                self._waiting.remove(consumer)
                for name in before.last:
                    _discard(self._last, name, consumer)
        if demand is not None:
            if _is_there(demand):
                for resource in demand.requests:
                    todo.stocks.add((demand.node, resource))
                    self._there[demand.node, resource][consumer] = demand
            else:
                self._waiting.add(demand)
                for name in demand.last:
                    self._last[name].add(consumer)

    def _worked_out(self, todo: _Todo) -> Ledger:
        known = self._with_nodes(todo)
        for key in todo.stocks:
            self._settle(key, known, todo)
        changed, concerned = self._waiting.place(known, self._owned, self._home)
        for consumer in todo.consumers | concerned:
            self._sum_up(consumer)
        return self._put_together(known, todo.stocks | changed)

    def _with_nodes(self, todo: _Todo) -> Ledger:
        """The ledger with the nodes as they are by now, and what depends on them to do."""
        known = self.ledger
        unreported = {node for node, _ in todo.stocks if node not in self._reported}
        if not todo.nodes and not unreported:
            return known
        if todo.come_or_gone or unreported:
            nodes = all_nodes(self._reported.values(), self._groups)
        else:
            nodes = {**known.nodes, **{name: self._reported[name] for name in todo.nodes}}
        pairs = [
            (known.nodes.get(name), nodes.get(name))
            for name in todo.nodes | unreported | (known.nodes.keys() ^ nodes.keys())
        ]
        labelled, others = _labelled(known.labelled, pairs)
        self._waiting.again_for(others)
        turned = {
            node.name
            for before, after in pairs
            if (node := before or after) is not None
            and (before is None or after is None or before.closed != after.closed)
        }
        if turned:
            todo.stocks.update(key for key in self._groups if key[0] in turned)
            for key in todo.stocks & self._settled.keys():
                for consumer in self._settled[key].owned:
                    self._waiting.again(consumer)
        return msgspec.structs.replace(known, nodes=nodes, labelled=labelled)

    def _settle(self, key: StockKey, known: Ledger, todo: _Todo) -> None:
        """One stock, its owners, and those who are on its node."""
        shelf = None
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
                self._waiting.again(consumer)
        todo.consumers.update(was.owned, was.given, was.missing, now.owned, now.given, now.missing)
        self._name(key, _names(self._waiting.base.get(key)), _names(shelf))
        self._waiting.stock(key, shelf)

    def _name(self, key: StockKey, before: set[str], after: set[str]) -> None:
        """Know where devices are that were in use last."""
        for name in before ^ after:
            others = tuple(one for one in self._where.get(name, ()) if one != key)
            _put(self._where, name, (*others, key) if name in after else others)
            for consumer in self._last.get(name, ()):
                self._waiting.again(consumer)

    def _home(self, name: str) -> str | None:
        """The node of a device of this name."""
        keys = self._where.get(name)
        return min(keys)[0] if keys else None

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
            given = self._waiting.given[consumer]
            shares += given.shares
            short = given.short
        _put(self._shares, consumer, tuple(shares))
        _put(self._short, consumer, short)

    def _put_together(self, known: Ledger, changed: set[StockKey]) -> Ledger:
        others = {key for key in changed if (key in self._stocks) != (key in self._waiting.shelves)}
        for key in changed:
            shelf = self._waiting.shelves.get(key)
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
            counts = (
                (node, len(self._waiting.shelves[node, resource].free)) for node in homes[resource]
            )
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


def _labelled(
    known: Mapping[tuple[str, str], frozenset[str]],
    pairs: Iterable[tuple[NodeFact | None, NodeFact | None]],
) -> tuple[dict[tuple[str, str], frozenset[str]], set[tuple[str, str]]]:
    """The nodes by label after nodes have changed, and the labels that others have now."""
    others: dict[tuple[str, str], set[str]] = {}
    for before, after in pairs:
        was = set() if before is None else set(before.labels.items())
        now = set() if after is None else set(after.labels.items())
        for label in was ^ now:
            names = others.setdefault(label, set(known.get(label, ())))
            if after is not None and label in now:
                names.add(after.name)
            elif before is not None:
                names.discard(before.name)
    labelled = dict(known)
    for label, names in others.items():
        _put(labelled, label, frozenset(names))
    return labelled, set(others)


def _is_there(demand: Demand) -> bool:
    """Whether one takes from its node before all who are still to be placed."""
    return bool(demand.node) and demand.phase is not Phase.STOPPED


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
