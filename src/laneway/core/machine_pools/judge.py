"""Whether the machines of all pools of a guest cluster can start, now and in a rolling update.

The cluster's own machines count: one that stays needs nothing new, and what one that goes has is
there for the others in the end. A rolling update makes a new machine before the old one goes. Where
there is no room for that, it is said with the number that is missing and never refused: the pool as
it is desired does fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.ledger.explain import why_not
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.room import Room
from laneway.core.machine_pools.packing import Budget, Fit, Kind, pack, room, totals
from laneway.core.machine_pools.pool import CPU, MEMORY, Machine, Pool
from laneway.core.refusals import Refusal
from laneway.core.refusals.machine_pools import (
    InsufficientCompute,
    MachinesCompete,
    NodeCompute,
    PlacementUncertain,
    SurgeBlocked,
)

_NODES = 3
"""So many nodes are named."""
_MANY = 10_000
"""More machines than any node has room for."""

_STAGES = 16
"""So many stages of a rolling update are looked at one by one."""

Free = Mapping[str, Mapping[str, int]]
"""What is free on each node that is open."""


class _Stage(NamedTuple):
    """A moment of a rolling update, when the next old machine waits for a new one."""

    gone: Sequence[Machine]
    needed: int
    """How many new machines are there then, or must be."""


class Place(NamedTuple):
    """A node, as a machine of a pool finds it once all machines that go are gone."""

    node: str
    closed: str
    """Why nothing can start there, in words; empty: it can."""
    allowed: bool
    """Whether the machines of the pool may be there."""
    free: Mapping[str, int]
    """Devices, CPU and memory; empty where it is closed."""
    room: int | None
    """For how many more machines of the pool there is room; None: nothing limits them here."""


class About(NamedTuple):
    """What there is to say of a pool."""

    pool: str
    refusal: Refusal


class Judgement(msgspec.Struct, frozen=True):
    """Whether all machines can start."""

    room: Mapping[str, int]
    """For how many of the machines that are still to be made there is room, by pool, as if there
    were no other pools."""
    refusals: tuple[About, ...] = ()
    warnings: tuple[About, ...] = ()


def judge(
    pools: Sequence[Pool],
    ledger: Ledger,
    compute: Free | None,
    others: Sequence[Pool] = (),
    naming: Callable[[Consumer], str] = str,
) -> Judgement:
    """What speaks against pools.

    `compute`: the CPU and memory that are free; None: not known. `others`: pools that were there
    first, under names of their own, whose machines may still be to be made. `naming`: what those
    are called who have devices, for people who may not know all of them.
    """
    case = _Case(pools, others, ledger, compute, Budget(), naming)
    leaving = [machine for pool in pools for machine in pool.leaving]
    leaving += case.waiting
    free = case.free(leaving)
    kinds = [case.kind(pool, pool.coming) for pool in pools]
    rooms = {kind.name: sum(room(kind, free).values()) for kind in kinds}
    packed = pack([*kinds, *case.first(free)], free, case.budget)
    named = {pool.name: pool for pool in pools}
    coming = {pool.name: pool.coming for pool in (*others, *pools)}
    refusals = [
        About(name, refusal)
        for name in packed.short
        for refusal in _short(case, named[name], rooms[name], free, leaving)
    ]
    warnings = []
    for group in packed.rivals:
        of_group = tuple((name, coming[name]) for name in group)
        if (mine := next((name for name in group if name in named), "")) and not refusals:
            if packed.fit is Fit.NO:
                refusals.append(About(mine, MachinesCompete(of_group)))
            else:
                warnings.append(About(mine, PlacementUncertain(of_group)))
    if not refusals:
        warnings += [about for pool in pools for about in _roll_out(case, pool)]
    return Judgement(rooms, tuple(refusals), () if refusals else tuple(warnings))


def places(
    pools: Sequence[Pool],
    pool: Pool,
    ledger: Ledger,
    compute: Free | None,
    others: Sequence[Pool] = (),
) -> list[Place]:
    """Each node as one of the pools finds it."""
    case = _Case(pools, others, ledger, compute, Budget())
    leaving = [machine for one in pools for machine in one.leaving]
    free = case.free([*leaving, *case.waiting])
    kind = case.kind(pool, _MANY)
    rooms = room(kind, free)
    return [
        Place(
            name,
            node.closed,
            pool.nodes is None or name in pool.nodes,
            free.get(name, {}),
            rooms.get(name, 0) if any(kind.needs.values()) or name not in free else None,
        )
        for name, node in ledger.nodes.items()
    ]


class _Case(NamedTuple):
    """What is judged, and by what."""

    pools: Sequence[Pool]
    others: Sequence[Pool]
    ledger: Ledger
    compute: Free | None
    budget: Budget
    """For all comparisons together."""
    naming: Callable[[Consumer], str] = str

    @property
    def waiting(self) -> list[Machine]:
        """Those without a node: what the ledger keeps for them is not theirs yet."""
        return [one for pool in self.pools for one in pool.machines if not one.placed]

    def kind(self, pool: Pool, count: int) -> Kind:
        needs = pool.devices if self.compute is None else pool.needs
        return Kind(pool.name, count, needs, pool.nodes)

    def first(self, free: Free) -> list[Kind]:
        """What the others are still to get, as far as there is room for it."""
        kinds = [self.kind(pool, pool.coming) for pool in self.others]
        rooms = totals(kinds, free)
        return [kind._replace(machines=most) for kind, most in zip(kinds, rooms, strict=True)]

    def free(self, gone: Iterable[Machine]) -> dict[str, dict[str, int]]:
        """What is free on each node where something can start, once these machines are gone."""
        ledger, compute = self.ledger, self.compute
        resources = {name for pool in (*self.pools, *self.others) for name in pool.devices}
        free = {
            name: {
                **((compute or {}).get(name, {})),
                **{one: ledger.free.get(one, {}).get(name, 0) for one in resources},
            }
            for name, node in ledger.nodes.items()
            if not node.closed
        }
        for machine in {one.vm: one for one in gone}.values():
            for share in ledger.shares.get(machine.vm, ()):
                if share.usable and share.node in free and share.resource in resources:
                    free[share.node][share.resource] += 1
            demand = ledger.demands.get(machine.vm)
            if compute is not None and demand is not None and demand.node in free:
                there = free[demand.node]
                for name, amount in machine.needs.items():
                    there[name] = there.get(name, 0) + amount
        return free


def _short(
    case: _Case, pool: Pool, possible: int, free: Free, leaving: Iterable[Machine]
) -> Iterator[Refusal]:
    """Why there is too little room for the machines of one pool."""
    devices = Room(case.ledger, dict(pool.devices), pool.nodes)
    for machine in leaving:
        devices.release(machine.vm)
    reasons = why_not(case.ledger, devices, pool.coming, case.naming) if pool.devices else ()
    if reasons:
        yield from reasons
        return
    places = [name for name in free if pool.nodes is None or name in pool.nodes]
    nodes = [
        NodeCompute(name, free[name].get(CPU, 0), free[name].get(MEMORY, 0))
        for name in places
        if not pool.devices or name in devices.rooms
    ]
    nodes.sort(key=lambda node: (-node.cpu, -node.memory, node.name))
    yield InsufficientCompute(
        machines=pool.coming,
        possible=possible,
        cpu=pool.cpu,
        memory=pool.memory,
        nodes=tuple(nodes[:_NODES]),
        others=max(len(nodes) - _NODES, 0),
    )


def _roll_out(case: _Case, pool: Pool) -> Iterator[About]:
    """Where a rolling update of one pool stops, if it does."""

    def there(gone: Sequence[Machine]) -> Free:
        # Of other pools, what is replaced may stay as long, and what is new may come first.
        extra = (one for other in case.pools for one in other.leaving if one.stays)
        return case.free((*gone, *extra, *case.waiting))

    def is_blocked(stage: _Stage) -> bool:
        free = there(stage.gone)
        kinds = [case.kind(one, stage.needed if one is pool else one.coming) for one in case.pools]
        return pack([*kinds, *case.first(free)], free, case.budget).fit is not Fit.YES

    stage = _first(list(_stages(pool)), is_blocked)
    if stage is None:
        return
    gone, needed = stage
    free = there(gone)
    possible = sum(room(case.kind(pool, needed), free).values())
    lacking = {
        resource: needed * count - sum(found.get(resource, 0) for found in free.values())
        for resource, count in pool.devices.items()
    }
    short = tuple((name, count) for name, count in sorted(lacking.items()) if count > 0)
    missing = max(needed - possible, 0)
    yield About(pool.name, SurgeBlocked(missing, short, len(gone), due=pool.is_replacing))


def _first(stages: Sequence[_Stage], is_blocked: Callable[[_Stage], bool]) -> _Stage | None:
    """The first stage that is blocked.

    Of many stages it is searched: machines that are alike have ever more room, or ever less.
    """
    if len(stages) <= _STAGES:
        return next(filter(is_blocked, stages), None)
    if is_blocked(stages[0]):
        return stages[0]
    if not is_blocked(stages[-1]):
        return None
    return stages[bisect_left(range(len(stages) - 1), True, key=lambda n: is_blocked(stages[n]))]


def _stages(pool: Pool) -> Iterator[_Stage]:
    """The machines that are gone when the next old one waits, and how many new ones that needs.

    Cluster API deletes an old machine only while enough others are available.
    """
    least = pool.quantity - pool.unavailable
    old = [one for one in pool.leaving if not one.stays and one.placed]
    kept = pool.quantity - pool.coming
    if not old:
        # A later update, of machines that are like each other: if the first one goes, all do.
        if pool.quantity and not pool.unavailable:
            yield _Stage((), pool.coming + 1)
        return
    for count in range(len(old)):
        needed = least - (len(old) - count - 1) - kept
        yield _Stage(old[:count], min(max(needed, 0), pool.coming))
