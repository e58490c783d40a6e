"""Whether machines of several kinds fit on the nodes together.

Machines that are alike fit independently of each other: the room for them is a sum over nodes,
wherever the scheduler puts which. Kinds of which no node has too little for all of them do not meet
at all. Where kinds compete for something, two answers are exact: whether any placing holds all of
them, and whether every placing does, in whatever order they come. Between the two it depends on the
scheduler, which is said as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

_STEPS = 100_000
"""So many steps are made for one question, about a tenth of a second. Beyond, the answer is that it
depends."""
_KINDS = 24
"""So many kinds are compared with each other."""

Vector = tuple[int, ...]
"""How many machines of each kind."""
Ways = Sequence[tuple[Vector, tuple[bool, ...]]]
"""What a node can hold, and of which kinds it then has room for one more."""


Likeness = tuple[frozenset[tuple[str, int]], frozenset[str] | None]
"""What is equal of machines that can stand in for each other."""


class Kind(NamedTuple):
    """Machines that are alike."""

    name: str
    machines: int
    """How many."""
    needs: Mapping[str, int]
    """What each takes of its node."""
    nodes: frozenset[str] | None = None
    """Where they may be; None: anywhere."""

    @property
    def likeness(self) -> Likeness:
        """What other kinds have that need the same."""
        needs = frozenset((name, need) for name, need in self.needs.items() if need > 0)
        return needs, self.nodes


class Fit(StrEnum):
    """Whether all machines have a place."""

    YES = "yes"
    DEPENDS = "depends"
    """On which nodes the scheduler chooses."""
    NO = "no"


class Packed(NamedTuple):
    """The answer."""

    fit: Fit
    short: tuple[str, ...] = ()
    """Kinds for which there is too little room even without the others."""
    rivals: tuple[tuple[str, ...], ...] = ()
    """Kinds that compete with each other, where they do not surely fit."""


class _TooManyError(Exception):
    """There are more ways than are compared."""


class Budget:
    """How much may still be compared, in steps of about a microsecond."""

    def __init__(self, steps: int = _STEPS) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> None:
        """Raise _TooManyError where nothing is left."""
        self.left -= steps
        if self.left < 0:
            raise _TooManyError


def room(kind: Kind, free: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """For how many machines of a kind each node has room, if there is any; no more than wanted."""
    needs = [(resource, need) for resource, need in kind.needs.items() if need > 0]
    found = {}
    for node, there in free.items():
        if kind.nodes is None or node in kind.nodes:
            most = kind.machines
            for name, need in needs:  # nothing here is asked as often
                if (here := there.get(name, 0) // need) < most:
                    most = here
            if most > 0:
                found[node] = most
    return found


def totals(kinds: Sequence[Kind], free: Mapping[str, Mapping[str, int]]) -> list[int]:
    """For how many machines of each kind there is room, if there were no others."""
    rooms = {key: sum(room(kind, free).values()) for key, kind in _merged(kinds).items()}
    return [min(rooms[kind.likeness], kind.machines) for kind in kinds]


def pack(
    kinds: Iterable[Kind], free: Mapping[str, Mapping[str, int]], budget: Budget | None = None
) -> Packed:
    """Whether the machines fit on nodes where so much is free."""
    budget = budget or Budget()
    wanted = [kind for kind in kinds if kind.machines > 0]
    alike = _merged(wanted)
    rooms = {key: room(kind, free) for key, kind in alike.items()}
    most = {key: sum(there.values()) for key, there in rooms.items()}
    if short := [kind.name for kind in wanted if most[kind.likeness] < kind.machines]:
        return Packed(Fit.NO, tuple(short))
    worst, rivals, merged = Fit.YES, [], list(alike.values())
    for group in _groups(merged, list(rooms.values()), free):
        if len(group) > 1:
            fit = _together([merged[one] for one in group], free, budget)
        else:
            [only] = group
            fits = most[merged[only].likeness] >= merged[only].machines
            fit = Fit.YES if fits else Fit.NO
        if fit is not Fit.YES:
            those = {merged[one].likeness for one in group}
            rivals.append(tuple(kind.name for kind in wanted if kind.likeness in those))
            worst = Fit.NO if Fit.NO in (fit, worst) else Fit.DEPENDS
    return Packed(worst, (), tuple(rivals))


def _merged(kinds: Iterable[Kind]) -> dict[Likeness, Kind]:
    """Machines of several kinds that need the same are of one."""
    found: dict[Likeness, Kind] = {}
    for kind in kinds:
        there = found.get(kind.likeness)
        more = there.machines if there is not None else 0
        found[kind.likeness] = kind._replace(machines=kind.machines + more)
    return found


def _groups(
    kinds: Sequence[Kind], rooms: Sequence[Mapping[str, int]], free: Mapping[str, Mapping[str, int]]
) -> list[list[int]]:
    """The kinds that compete for something on some node, as positions."""
    leader = list(range(len(kinds)))

    def top(one: int) -> int:
        while leader[one] != one:
            one = leader[one]
        return one

    for node, there in free.items():
        here = [one for one in range(len(kinds)) if node in rooms[one]]
        for resource in {name for one in here for name in kinds[one].needs}:
            takers = [one for one in here if kinds[one].needs.get(resource, 0) > 0]
            most = sum(rooms[one][node] * kinds[one].needs[resource] for one in takers)
            if most > there.get(resource, 0):
                for one in takers[1:]:
                    leader[top(one)] = top(takers[0])
    groups: dict[int, list[int]] = {}
    for one in range(len(kinds)):
        groups.setdefault(top(one), []).append(one)
    return list(groups.values())


def _together(kinds: Sequence[Kind], free: Mapping[str, Mapping[str, int]], budget: Budget) -> Fit:
    if len(kinds) > _KINDS:
        return Fit.DEPENDS
    rooms = [room(kind, free) for kind in kinds]
    if not any(_may_block(one, kinds, rooms, free) for one in range(len(kinds))):
        return Fit.YES
    counts = tuple(kind.machines for kind in kinds)
    names = sorted({name for kind in kinds for name in kind.needs})
    found: dict[tuple[Vector, Vector], Ways] = {}  # nodes that are alike hold the same
    try:
        ways = []
        for node, there in free.items():
            most = tuple(one.get(node, 0) for one in rooms)
            if any(most):
                key = most, tuple(there.get(name, 0) for name in names)
                if key not in found:
                    found[key] = list(_ways(kinds, most, there, budget))
                ways.append(found[key])
        if not _all_fit(counts, ways, budget):
            return Fit.NO
        blocked = any(_can_block(one, counts, ways, budget) for one in range(len(kinds)))
    except _TooManyError:
        return Fit.DEPENDS
    return Fit.DEPENDS if blocked else Fit.YES


def _may_block(
    one: int,
    kinds: Sequence[Kind],
    rooms: Sequence[Mapping[str, int]],
    free: Mapping[str, Mapping[str, int]],
) -> bool:
    """Whether there are enough machines to fill each node on which one of a kind may be."""
    others = sum(kind.machines for kind in kinds) - 1
    for node in rooms[one]:
        here = [kind for kind, there in zip(kinds, rooms, strict=True) if node in there]
        others -= min(
            (free[node][name] - need) // max(kind.needs.get(name, 0) for kind in here) + 1
            for name, need in kinds[one].needs.items()
            if need > 0
        )
        if others < 0:
            return False
    return True


def _ways(
    kinds: Sequence[Kind], most: Vector, there: Mapping[str, int], budget: Budget
) -> Iterator[tuple[Vector, tuple[bool, ...]]]:
    """What a node can hold, and of which kinds it then has room for one more."""
    for vector in _vectors([kind.needs for kind in kinds], most, dict(there), budget):
        budget.spend(len(kinds) ** 2)
        more = tuple(
            _one_more(vector, one, kinds, there) and most[one] > 0 for one in range(len(kinds))
        )
        yield vector, more


def _vectors(
    needs: Sequence[Mapping[str, int]], most: Vector, there: dict[str, int], budget: Budget
) -> Iterator[Vector]:
    if not needs:
        yield ()
        return
    for count in range(most[0] + 1):
        budget.spend(len(there))
        left = {name: amount - count * needs[0].get(name, 0) for name, amount in there.items()}
        if any(left.get(name, 0) < 0 for name in needs[0]):
            return
        for rest in _vectors(needs[1:], most[1:], left, budget):
            yield (count, *rest)


def _one_more(vector: Vector, one: int, kinds: Sequence[Kind], there: Mapping[str, int]) -> bool:
    return all(
        sum(count * kind.needs.get(name, 0) for count, kind in zip(vector, kinds, strict=True))
        + need
        <= there.get(name, 0)
        for name, need in kinds[one].needs.items()
        if need > 0
    )


def _all_fit(counts: Vector, ways: Sequence[Ways], budget: Budget) -> bool:
    """Whether some placing holds all machines."""
    totals = {(0,) * len(counts)}
    for node in ways:
        vectors = _best((vector for vector, _ in node), budget)
        budget.spend(len(totals) * len(vectors))
        sums = (
            tuple(min(a + b, most) for a, b, most in zip(total, vector, counts, strict=True))
            for total in totals
            for vector in vectors
        )
        totals = _best(sums, budget)
        if counts in totals:
            return True
    return counts in totals


def _can_block(one: int, counts: Vector, ways: Sequence[Ways], budget: Budget) -> bool:
    """Whether the others, and fewer than all of a kind, can be put so that no more of it fits."""
    most = tuple(count - (position == one) for position, count in enumerate(counts))
    totals = {(0,) * len(counts)}
    for node in ways:
        vectors = _least((vector for vector, more in node if not more[one]), budget)
        budget.spend(len(totals) * len(vectors))
        sums = (
            tuple(a + b for a, b in zip(total, vector, strict=True))
            for total in totals
            for vector in vectors
        )
        totals = _least(
            (total for total in sums if all(a <= b for a, b in zip(total, most, strict=True))),
            budget,
        )
    return bool(totals)


def _best(vectors: Iterable[Vector], budget: Budget) -> set[Vector]:
    """Those than which no other is better in everything."""
    negated = (tuple(-a for a in one) for one in vectors)
    return {tuple(-a for a in one) for one in _least(negated, budget)}


def _least(vectors: Iterable[Vector], budget: Budget) -> set[Vector]:
    found: set[Vector] = set()
    # In this order none is better than one before it.
    for vector in sorted(set(vectors)):
        budget.spend(len(found))
        if not any(all(a <= b for a, b in zip(one, vector, strict=True)) for one in found):
            found.add(vector)
    return found
