"""Those who are still to be placed, kept in their turn, each with what he was given.

Each depends on those before. When something else is free in a stock, or a VM comes or goes,
those after him are gone through in turn, and a place is chosen again only for who took from a stock
that differs, or who would now see such a stock before the one that he took from. Every other one
has what he had, because all that he looked at is as it was. Whose place is another makes two more
stocks differ from his turn on.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

import msgspec

from laneway.core.ledger.facts import Consumer, Demand
from laneway.core.ledger.ledger import Ledger, Share, Shortage, Taking
from laneway.core.ledger.placing import STATES, Choice, Placing, Shelf, take, turn_of

StockKey = tuple[str, str]
Turn = tuple[int, str, Consumer, str, str]
_Entry = tuple[Turn, Demand]


class Given(msgspec.Struct):
    """What one was given in his turn."""

    choice: Choice | None = None
    shares: tuple[Share, ...] = ()
    short: Shortage | None = None


class Waiting:
    """The VMs that are still to be placed, and the stocks after they took from them."""

    def __init__(self) -> None:
        self.shelves: dict[StockKey, Shelf] = {}
        """Those of `base`, or copies from which more is taken."""
        self.given: dict[Consumer, Given] = {}
        """Of all who is still to be placed."""
        self.base: dict[StockKey, Shelf] = {}
        """The given stocks."""
        self._demands: dict[Consumer, Demand] = {}
        self._lines: dict[str, list[_Entry]] = defaultdict(list)
        """By resource, who requests it, in turn."""
        self._several: dict[Consumer, Demand] = {}
        """Who requests more than one resource."""
        self._takers: dict[StockKey, dict[Consumer, list[str]]] = defaultdict(dict)
        """Who took which devices."""
        self._other: set[StockKey] = set()
        """The stocks of which something else is free than when VMs were placed last."""
        self._again: set[Consumer] = set()
        """Whose own devices, or the places of whose last devices, are others."""

    def add(self, demand: Demand) -> None:
        """A VM or pod is to be placed."""
        consumer = demand.consumer
        self._demands[consumer], self.given[consumer] = demand, Given()
        for resource in demand.requests:
            insort(self._lines[resource], (turn_of(demand), demand), key=_turn)
        if len(demand.requests) > 1:
            self._several[consumer] = demand
        self._again.add(consumer)

    def remove(self, consumer: Consumer) -> Demand:
        """A VM or pod is no longer to be placed."""
        demand = self._demands.pop(consumer)
        self._other.update(self._leave(consumer))
        del self.given[consumer]
        self._several.pop(consumer, None)
        self._again.discard(consumer)
        for resource in demand.requests:
            line = self._lines[resource]
            del line[bisect_left(line, turn_of(demand), key=_turn)]
        return demand

    def again(self, consumer: Consumer) -> None:
        """Place a VM or pod again, if it is to be placed."""
        if consumer in self.given:
            self._again.add(consumer)

    def again_for(self, labels: Collection[tuple[str, str]]) -> None:
        """Place those again who ask for one of these labels of nodes."""
        if labels:
            for consumer, demand in self._demands.items():
                if any(label in labels for label in demand.selector.items()):
                    self._again.add(consumer)

    def stock(self, key: StockKey, shelf: Shelf | None) -> None:
        """A stock before any VM here takes from it; it is not changed."""
        before = self.base.pop(key, None)
        if shelf is not None:
            self.base[key] = shelf
        if (before is None or shelf is None) or before.free != shelf.free:
            self._other.add(key)
        taken = self._takers.get(key)
        if shelf is None:
            self.shelves.pop(key, None)
        else:
            self.shelves[key] = (self._shelf(key, taken) if taken else None) or shelf

    def place(
        self,
        known: Ledger,
        owned: Callable[[Consumer], list[Share]],
        home: Callable[[str], str | None],
    ) -> tuple[set[StockKey], set[Consumer]]:
        """Place those for whom something differs; the stocks and those who are concerned.

        `owned`: what the kubelet reported. `home`: the node of a device that was in use last.
        """
        again, self._again = self._again, set()
        for consumer in again:
            self._other.update(self._leave(consumer))
        resources = {resource for _, resource in self._other}
        for consumer in again:
            resources.update(self._demands[consumer].requests)
        self._connect(resources)
        line = self._in_turn(resources)
        differing = _Differing()
        for key in self._other:
            self._differs(key, differing, {})
        self._other = set()
        work: Placing | None = None
        concerned = set(again)
        for at, (turn, demand) in enumerate(line):
            consumer = demand.consumer
            given = self.given[consumer]
            choice, clear = differing.choose(demand, given.choice, known)
            if consumer in again or not clear:
                if work is None:
                    work = self._work(known, resources, line[:at])
                work.shares[consumer] = owned(consumer)
                homes = ((name, home(name)) for name in demand.last)
                work.homes = {name: node for name, node in homes if node is not None}
                choice = work.choose(demand)
            elif choice is given.choice and differing.leave(choice):
                if work is not None:
                    work.took(given.shares)
                continue
            self._give(turn, demand, choice, differing)
            concerned.add(consumer)
            if work is not None:
                work.took(self.given[consumer].shares)
        return differing.keys, concerned

    def _give(
        self, turn: Turn, demand: Demand, choice: Choice | None, differing: _Differing
    ) -> None:
        """Give one what was chosen; the stocks that he leaves and takes from differ from now on."""
        consumer, keys = demand.consumer, _keys(choice)
        given = self.given[consumer]
        unmoved = given.choice is not None and keys == _keys(given.choice)
        if unmoved and differing.keys.isdisjoint(keys):
            given.choice = choice
            return
        for key in self._leave(consumer) | keys:
            if key not in differing.keys:
                self._differs(key, differing, self._taken_before(key, turn))
        if choice is None:
            return
        shares, short = take(demand, choice, self.shelves.get)
        self.given[consumer] = Given(choice, shares, short)
        for share in shares:
            takers = self._takers[share.node, share.resource]
            takers.setdefault(consumer, []).append(share.name)
        for key in keys & self.shelves.keys():
            differing.put(key, len(self.shelves[key].free))

    def _connect(self, resources: set[str]) -> None:
        """Add what is requested together with one of these."""
        count = -1
        while count != len(resources):
            count = len(resources)
            for demand in self._several.values():
                if not resources.isdisjoint(demand.requests):
                    resources.update(demand.requests)

    def _in_turn(self, resources: set[str]) -> list[_Entry]:
        lines = [self._lines[resource] for resource in resources if resource in self._lines]
        if len(lines) == 1:
            return lines[0]
        entries = {turn: demand for line in lines for turn, demand in line}
        return sorted(entries.items(), key=_turn)

    def _work(self, known: Ledger, resources: set[str], before: Iterable[_Entry]) -> Placing:
        """The stocks after those who came before."""
        free = {key: len(one.free) for key, one in self.base.items() if key[1] in resources}
        for _, demand in before:
            for share in self.given[demand.consumer].shares:
                free[share.node, share.resource] -= 1
        return Placing(
            known.nodes, known.labelled, free=free, shares={}, homes={}, resources=resources
        )

    def _differs(
        self, key: StockKey, differing: _Differing, taken: Mapping[Consumer, list[str]]
    ) -> None:
        """From now on a stock differs; these took from it before."""
        differing.keys.add(key)
        if (shelf := self._shelf(key, taken)) is None:
            self.shelves.pop(key, None)
        else:
            self.shelves[key] = shelf
            differing.put(key, len(shelf.free))

    def _shelf(self, key: StockKey, taken: Mapping[Consumer, list[str]]) -> Shelf | None:
        """A stock from which these took, and from which more can be taken."""
        if (base := self.base.get(key)) is None:
            return None
        shelf = base.copy()
        for consumer, names in taken.items():
            state = STATES[self._demands[consumer].phase]
            shelf.take(len(names), Taking(state, consumer), names)
        return shelf

    def _taken_before(self, key: StockKey, turn: Turn) -> dict[Consumer, list[str]]:
        taken = self._takers.get(key, {})
        return {
            consumer: names
            for consumer, names in taken.items()
            if turn_of(self._demands[consumer]) < turn
        }

    def _leave(self, consumer: Consumer) -> set[StockKey]:
        """Take back what one was given; the stocks that it was taken from."""
        given = self.given[consumer]
        self.given[consumer] = Given()
        keys = {(share.node, share.resource) for share in given.shares}
        for key in keys:
            del self._takers[key][consumer]
            if not self._takers[key]:
                del self._takers[key]
        return keys


class _Differing:
    """The stocks that are not as they were, by now."""

    def __init__(self) -> None:
        self.keys: set[StockKey] = set()
        self._free: dict[StockKey, int] = {}
        self._orders: dict[str, list[tuple[int, str]]] = defaultdict(list)
        """By resource, the least free first."""

    def put(self, key: StockKey, free: int) -> None:
        """So much is free in one of them."""
        node, resource = key
        order = self._orders[resource]
        if (before := self._free.get(key)) is not None:
            del order[bisect_left(order, (before, node))]
        insort(order, (free, node))
        self._free[key] = free

    def leave(self, choice: Choice | None) -> bool:
        """Whether what was chosen is as it was."""
        if choice is None:
            return True
        return all((choice.node, name) not in self.keys for name in choice.wanted)

    def choose(self, demand: Demand, before: Choice | None, known: Ledger) -> _Chosen:
        """What one chooses now, as far as that is clear without a look at all other stocks."""
        if before is None or demand.node:
            return _Chosen(before)
        wanted, node, near, tightness = before
        if near and near[0] == node:
            # While everything fits there he looks nowhere else.
            for name, count in wanted.items():
                if (node, name) in self.keys and self._free.get((node, name), 0) < count:
                    return _UNCLEAR
            return _Chosen(before)
        if near and any((one, name) in self.keys for name in wanted for one in near):
            return _UNCLEAR
        if node in near:
            return _Chosen(before)
        if len(wanted) > 1:
            clear = not any(self._orders.get(name) for name in wanted)
            return _Chosen(before) if clear else _UNCLEAR
        ((name, count),) = wanted.items()
        order = self._orders.get(name, [])
        at = bisect_left(order, (count, ""))
        if demand.selector and at < len(order):
            allowed = known.with_labels(demand.selector)
            found = next((one for one in order[at:] if one[1] in allowed), None)
        else:
            found = order[at] if at < len(order) else None
        # Of all that do not differ, the one that he took from is still the tightest.
        if found is not None and (tightness is None or found <= tightness):
            return _Chosen(before._replace(node=found[1], tightness=found))
        return _Chosen(before) if (node, name) not in self.keys else _UNCLEAR


class _Chosen(NamedTuple):
    choice: Choice | None
    clear: bool = True


_UNCLEAR = _Chosen(None, clear=False)


def _keys(choice: Choice | None) -> set[StockKey]:
    """The stocks that were chosen."""
    if choice is None or not choice.node:
        return set()
    return {(choice.node, resource) for resource in choice.wanted}


def _turn(entry: _Entry) -> Turn:
    return entry[0]
