"""Whether the machines of all pools of a guest cluster can start, now and in a rolling update.

The cluster's own machines count: one that stays needs nothing new, and what one that goes has is
there for the others in the end. A rolling update makes a new machine before the old one goes. Where
there is no room for that, it is said with the number that is missing and never refused: the pool as
it is desired does fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from laneway.core.ledger.explain import why_not
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.room import Room
from laneway.core.machine_pools.packing import Fit, Kind, Packed, pack, room
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

Free = Mapping[str, Mapping[str, int]]
"""What is free on each node that is open."""


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


def judge(pools: Sequence[Pool], ledger: Ledger, compute: Free | None) -> Judgement:
    """What speaks against pools. `compute`: the CPU and memory that are free; None: not known."""
    leaving = [machine for pool in pools for machine in pool.leaving]
    in_the_end = _free(pools, ledger, compute, leaving)
    kinds = [_kind(pool, pool.coming, compute) for pool in pools]
    rooms = {kind.name: sum(room(kind, in_the_end).values()) for kind in kinds}
    packed = pack(kinds, in_the_end)
    named = {pool.name: pool for pool in pools}
    refusals = tuple(
        About(name, refusal)
        for name in packed.short
        for refusal in _short(named[name], rooms[name], ledger, in_the_end, leaving)
    )
    if packed.fit is Fit.NO and not refusals:
        refusals = tuple(
            About(group[0], MachinesCompete(_requested(named, group))) for group in packed.rivals
        )
    warnings = () if refusals else tuple(_warnings(pools, ledger, compute, packed))
    return Judgement(rooms, refusals, warnings)


def _kind(pool: Pool, count: int, compute: Free | None) -> Kind:
    return Kind(pool.name, count, pool.devices if compute is None else pool.needs, pool.nodes)


def _free(
    pools: Iterable[Pool], ledger: Ledger, compute: Free | None, gone: Iterable[Machine]
) -> dict[str, dict[str, int]]:
    """What is free on each node where something can start, once these machines are gone."""
    resources = {name for pool in pools for name in pool.devices}
    free = {
        name: {
            **((compute or {}).get(name, {})),
            **{one: ledger.free.get(one, {}).get(name, 0) for one in resources},
        }
        for name, node in ledger.nodes.items()
        if not node.closed
    }
    for machine in gone:
        demand = ledger.demands.get(machine.vm)
        for share in ledger.shares.get(machine.vm, ()):
            if share.usable and share.node in free and share.resource in resources:
                free[share.node][share.resource] += 1
        if compute is not None and demand is not None and demand.node in free:
            there = free[demand.node]
            for name, amount in machine.needs.items():
                there[name] = there.get(name, 0) + amount
    return free


def _short(
    pool: Pool, possible: int, ledger: Ledger, free: Free, leaving: Iterable[Machine]
) -> Iterator[Refusal]:
    """Why there is too little room for the machines of one pool."""
    devices = Room(ledger, dict(pool.devices), pool.nodes)
    for machine in leaving:
        devices.release(machine.vm)
    reasons = why_not(ledger, devices, pool.coming) if pool.devices else ()
    if reasons:
        yield from reasons
        return
    places = [name for name in free if pool.nodes is None or name in pool.nodes]
    nodes = sorted(
        NodeCompute(name, free[name].get(CPU, 0), free[name].get(MEMORY, 0))
        for name in places
        if not pool.devices or name in devices.rooms
    )
    nodes.sort(key=lambda node: (-node.cpu, -node.memory, node.name))
    yield InsufficientCompute(
        machines=pool.coming,
        possible=possible,
        cpu=pool.cpu,
        memory=pool.memory,
        nodes=tuple(nodes[:_NODES]),
        others=max(len(nodes) - _NODES, 0),
    )


def _requested(named: Mapping[str, Pool], group: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, named[name].coming) for name in group)


def _warnings(
    pools: Sequence[Pool], ledger: Ledger, compute: Free | None, packed: Packed
) -> Iterator[About]:
    named = {pool.name: pool for pool in pools}
    for group in packed.rivals:
        yield About(group[0], PlacementUncertain(_requested(named, group)))
    for pool in pools:
        if pool.surge > 0 and not pool.unavailable and pool.quantity > 0:
            yield from _surge(pool, pools, ledger, compute)


def _surge(
    pool: Pool, pools: Sequence[Pool], ledger: Ledger, compute: Free | None
) -> Iterator[About]:
    """What a rolling update of one pool lacks while its old machines are still there."""
    staying = pool.machines if pool.is_replacing else ()
    gone = [one for other in pools for one in other.leaving if one not in staying]
    free = _free(pools, ledger, compute, gone)
    more = pool.surge + (0 if pool.is_replacing else pool.coming)
    kinds = [_kind(one, more if one is pool else one.coming, compute) for one in pools]
    if pack(kinds, free).fit is Fit.YES:
        return
    there = sum(room(_kind(pool, more, compute), free).values())
    missing = max(more - there, 0)
    lacking = {
        resource: more * count - sum(there.get(resource, 0) for there in free.values())
        for resource, count in pool.devices.items()
    }
    yield About(
        pool.name,
        SurgeBlocked(
            surge=pool.surge,
            missing=missing,
            devices=tuple((name, count) for name, count in sorted(lacking.items()) if count > 0),
            due=pool.is_replacing,
        ),
    )
