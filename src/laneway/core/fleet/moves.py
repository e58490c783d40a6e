"""The least number of moves of VMs after which wanted vGPUs fit, and in which order to make them.

A move is a live migration of a running VM to another node, or has another vGPU kept for a stopped
one; where it is allowed also a restart of a running VM on another GPU. Each VM moves once at the
most, with all of its vGPUs, and nothing else is touched. vGPUs without a holder are free room;
those in the way are named.

The answer is exact. The search asks whether no move suffices, then one, then two: each wanted vGPU
goes to some GPU, whatever must leave there goes to another, and so on, within the number of moves.
A VM that nothing pushes away stays, for without its move the answer would be shorter. Every answer
is played through, one move after the other, with the places that the driver would choose, and with
the GPU instances that an agent would make. Where the search would take too long it ends, and says
how many moves are proved not to suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from itertools import permutations

import msgspec

from laneway.core.fleet import fitting
from laneway.core.fleet.effort import TooLongError
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.movable import How, Unit, bound, takes_vgpus, units, unused
from laneway.core.fleet.moves_search import Assignment, Search
from laneway.core.fleet.shape import Shape

MOST_MOVES = 4
EFFORT = 200_000
"""Positions that are looked at before the search ends without an answer."""


class Outcome(StrEnum):
    """What the search found."""

    FOUND = "found"
    """The least number of moves."""
    NONE = "none"
    """It is proved that no moves within the limit do."""
    UNDECIDED = "undecided"
    """The search ended before it was proved."""


class Leg(msgspec.Struct, frozen=True):
    """Where one vGPU of a VM goes."""

    vgpu: str
    profile: str
    source: str
    """Names of GPUs."""
    target: str


class Move(msgspec.Struct, frozen=True):
    """One VM that moves."""

    vm: str
    how: How
    source: str
    """Nodes."""
    target: str
    legs: tuple[Leg, ...]


class Moves(msgspec.Struct, frozen=True):
    """The answer."""

    outcome: Outcome
    limit: int
    """The most moves that were asked for."""
    proved: int
    """So many moves, or fewer, are proved not to suffice; -1: nothing is proved."""
    moves: tuple[Move, ...] = ()
    """In the order in which they are possible."""
    places: tuple[tuple[str, str], ...] = ()
    """Profile and GPU of each wanted vGPU."""
    in_the_way: tuple[str, ...] = ()
    """VGPUDevices without a holder that are to be disabled first."""
    stay: Mapping[str, str] = {}
    """Holders that were not moved, and why."""


def least_moves(
    fleet: Fleet,
    wanted: Mapping[str, int],
    *,
    limit: int = MOST_MOVES,
    effort: int = EFFORT,
    restart: bool = False,
) -> Moves:
    """The moves after which the wanted vGPUs fit, by profile in the driver's name.

    `restart`: running VMs that cannot be migrated may be restarted.
    """
    movable, stay = units(fleet, restart=restart)
    if not _suffices_empty(fleet, wanted):
        return Moves(Outcome.NONE, limit, limit, stay=stay)
    search = Search(fleet, movable, effort)
    for budget in range(limit + 1):
        try:
            answer = _answer(fleet, search, wanted, budget)
            if answer is not None:
                found, order, places = answer
                return Moves(
                    outcome=Outcome.FOUND,
                    limit=limit,
                    proved=budget - 1,
                    moves=tuple(_move(fleet, *one) for one in order),
                    places=places,
                    in_the_way=_in_the_way(fleet, found),
                    stay=stay,
                )
        except TooLongError:
            return Moves(Outcome.UNDECIDED, limit, budget - 1, stay=_staying(fleet, movable, stay))
    return Moves(Outcome.NONE, limit, limit, stay=_staying(fleet, movable, stay))


def _staying(
    fleet: Fleet, movable: Mapping[str, Unit], stay: Mapping[str, str]
) -> Mapping[str, str]:
    """Also those for which there is no other GPU."""
    return {**stay, **bound(fleet, movable.values())}


Step = tuple[Unit, tuple[int, ...]]
"""A VM, and the GPU to which each of its vGPUs goes."""
_Order = tuple[Step, ...]
_Places = tuple[tuple[str, str], ...]


def _answer(
    fleet: Fleet, search: Search, wanted: Mapping[str, int], budget: int
) -> tuple[Assignment, _Order, _Places] | None:
    """The first way with so many moves that can be gone. Raises TooLongError.

    Where there is room, and in each order a vGPU takes a place in which it is in the way, one more
    VM that leaves may have it go elsewhere.
    """
    for spare in (False, True):
        blocked = False
        for found in search.assignments(wanted, budget, spare=spare):
            played = _played(fleet, search, found)
            if played is not None:
                return found, *played
            blocked = True
        if not blocked:
            break
    return None


def _suffices_empty(fleet: Fleet, wanted: Mapping[str, int]) -> bool:
    """Whether each profile alone would fit if nothing held a GPU: the search need not prove it."""
    takes = takes_vgpus(fleet, in_instances=True)
    usable = [fitting.shape_of(gpu) for gpu, takes in zip(fleet.gpus, takes, strict=True) if takes]
    return all(
        count <= sum(fitting.most(shape, profile) for shape in usable)
        for profile, count in wanted.items()
    )


def _played(fleet: Fleet, search: Search, found: Assignment) -> tuple[_Order, _Places] | None:
    """The moves in an order in which each has room when its turn comes; None: there is none."""
    wanted: dict[int, Counter[str]] = {}
    for unit, targets in found:
        if not unit.vm:
            for leg, target in zip(unit.legs, targets, strict=True):
                wanted.setdefault(target, Counter())[leg.profile] += 1
    for order in permutations([one for one in found if one[0].vm]):
        search.effort.look()
        if possible(fleet, order, wanted):
            places = (
                (profile, fleet.gpus[target].name)
                for target, counts in sorted(wanted.items())
                for profile in counts.elements()
            )
            return order, tuple(places)
    return None


def possible(fleet: Fleet, order: _Order, wanted: Mapping[int, Counter[str]]) -> bool:
    """Whether each of these moves has room when its turn comes, and the wanted vGPUs after them.

    `wanted`: how many by profile, by GPU.
    """
    now: dict[int, Shape] = {}

    def on(number: int) -> Shape:
        if number not in now:
            now[number] = fitting.shape_of(fleet.gpus[number])
        return now[number]

    for unit, targets in order:
        for leg, target in zip(unit.legs, targets, strict=True):
            after = fitting.put(on(target), leg.profile)
            if after is None:
                return False
            now[target] = after
        for leg in unit.legs:
            one = fitting.places(fleet.gpus[leg.gpu])[leg.vgpu]
            now[leg.gpu] = fitting.without(on(leg.gpu), one)
    return all(fitting.fit(on(at), counts) for at, counts in wanted.items())


def _move(fleet: Fleet, unit: Unit, targets: tuple[int, ...]) -> Move:
    pairs = [
        (leg, fleet.gpus[leg.gpu], fleet.gpus[target])
        for leg, target in zip(unit.legs, targets, strict=True)
    ]
    _, source, target = pairs[0]
    legs = tuple(Leg(leg.vgpu, leg.profile, one.name, other.name) for leg, one, other in pairs)
    return Move(unit.vm, unit.how, source.node, target.node, legs)


def _in_the_way(fleet: Fleet, found: Assignment) -> tuple[str, ...]:
    """Unused vGPUs that cannot stay with what comes; those of a profile that comes serve it."""
    arrivals: dict[int, Counter[str]] = {}
    leave: set[str] = set()
    for unit, targets in found:
        leave.update(leg.vgpu for leg in unit.legs)
        for leg, target in zip(unit.legs, targets, strict=True):
            arrivals.setdefault(target, Counter())[leg.profile] += 1
    return tuple(
        name
        for number, counts in sorted(arrivals.items())
        for name in in_the_way(fleet.gpus[number], counts, leave)
    )


def in_the_way(gpu: Gpu, arrivals: Counter[str], leave: Collection[str] = ()) -> Iterator[str]:
    """The unused vGPUs of a GPU that cannot stay with what comes. `leave`: vGPUs that go."""
    left = arrivals.copy()
    if not left:
        return
    there, places = fitting.shape_of(gpu), fitting.places(gpu)
    for one in gpu.vgpus:
        if one.holder and one.name in leave:
            there = fitting.without(there, places[one.name])
    for one in sorted(unused(gpu), key=lambda one: not arrivals[one.profile]):
        serves = left[one.profile] > 0 and not one.unhealthy
        rest = left - Counter([one.profile]) if serves else left
        more = fitting.with_one(there, places[one.name])
        if fitting.fit(more, rest):
            there, left = more, rest
        else:
            yield one.name
