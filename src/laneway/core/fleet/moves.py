"""The least number of moves of VMs after which wanted vGPUs fit, and in which order to make them.

A move is a live migration of a running VM to another node, or has another vGPU kept for a stopped
one; where it is allowed also a restart of a running VM on another GPU. Each VM moves once at the
most, with all of its vGPUs, and nothing else is touched. vGPUs without a holder are free room;
those in the way are named.

The answer is exact. The search asks whether no move suffices, then one, then two: each wanted vGPU
goes to some GPU, whatever must leave there goes to another, and so on, within the number of moves.
A VM that nothing pushes away stays, for without its move the answer would be shorter. Every answer
is played through, one move after the other, with the places that the driver would choose. Where the
search would take too long it ends, and says how many moves are proved not to suffice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from enum import StrEnum
from itertools import permutations

import msgspec

from laneway.core.fleet import board
from laneway.core.fleet.effort import TooLongError
from laneway.core.fleet.model import Fleet, Gpu
from laneway.core.fleet.movable import How, Unit, bound, takes_vgpus, units, unused
from laneway.core.fleet.moves_search import Assignment, Search
from laneway.core.vgpu.placement import Carried, arrange, most

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
            for found in search.assignments(wanted, budget):
                answer = _played(fleet, found)
                if answer is not None:
                    order, places = answer
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


def _suffices_empty(fleet: Fleet, wanted: Mapping[str, int]) -> bool:
    """Whether each profile alone would fit if nothing held a GPU: the search need not prove it."""
    usable = [gpu for gpu, takes in zip(fleet.gpus, takes_vgpus(fleet), strict=True) if takes]
    return all(
        count <= sum(_most(gpu, profile) for gpu in usable) for profile, count in wanted.items()
    )


def _most(gpu: Gpu, profile: str) -> int:
    card = board.card(gpu)
    if profile not in card.kinds:
        return 0
    count = most(card, (), profile, mixed=board.is_mixed(gpu))
    return min(count, gpu.functions) if gpu.functions else count


Step = tuple[Unit, tuple[int, ...]]
"""A VM, and the GPU to which each of its vGPUs goes."""


def _played(
    fleet: Fleet, found: Assignment
) -> tuple[tuple[Step, ...], tuple[tuple[str, str], ...]] | None:
    """The moves in an order in which each has room when its turn comes; None: there is none."""
    wanted: dict[int, Counter[str]] = {}
    for unit, targets in found:
        if not unit.vm:
            for leg, target in zip(unit.legs, targets, strict=True):
                wanted.setdefault(target, Counter())[leg.profile] += 1
    for order in permutations([one for one in found if one[0].vm]):
        if possible(fleet, order, wanted):
            places = (
                (profile, fleet.gpus[target].name)
                for target, counts in sorted(wanted.items())
                for profile in counts.elements()
            )
            return order, tuple(places)
    return None


def possible(fleet: Fleet, order: tuple[Step, ...], wanted: Mapping[int, Counter[str]]) -> bool:
    """Whether each of these moves has room when its turn comes, and the wanted vGPUs after them.

    `wanted`: how many by profile, by GPU.
    """
    now: dict[int, dict[str, Carried]] = {}

    def on(number: int) -> dict[str, Carried]:
        if number not in now:
            held = (one for one in fleet.gpus[number].vgpus if one.holder)
            now[number] = {one.name: Carried(one.profile, one.slot) for one in held}
        return now[number]

    for unit, targets in order:
        for leg, target in zip(unit.legs, targets, strict=True):
            placed = _make(fleet.gpus[target], on(target), Counter([leg.profile]))
            if placed is None:
                return False
            on(target)[f"{unit.vm} {leg.vgpu}"] = placed[0]
        for leg in unit.legs:
            del on(leg.gpu)[leg.vgpu]
    return all(_make(fleet.gpus[at], on(at), counts) is not None for at, counts in wanted.items())


def _make(gpu: Gpu, there: Mapping[str, Carried], more: Counter[str]) -> tuple[Carried, ...] | None:
    """Make vGPUs as the driver does; None: they do not fit."""
    if gpu.functions and len(there) + more.total() > gpu.functions:
        return None
    placed = arrange(board.card(gpu), there.values(), more, mixed=board.is_mixed(gpu))
    return None if placed is None else tuple(Carried(one.profile, one.start) for one in placed)


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
    there = {
        one.name: Carried(one.profile, one.slot)
        for one in gpu.vgpus
        if one.holder and one.name not in leave
    }
    left = arrivals.copy()
    for one in sorted(unused(gpu), key=lambda one: not arrivals[one.profile]):
        serves = left[one.profile] > 0 and not one.unhealthy
        rest = left - Counter([one.profile]) if serves else left
        beside = {**there, one.name: Carried(one.profile, one.slot)}
        if _make(gpu, beside, rest) is None:
            yield one.name
        else:
            there, left = beside, rest
