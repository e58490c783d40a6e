"""Which VMs must leave which GPUs so that wanted vGPUs fit, within a number of moves.

Every way of it is found but for those that only exchange equals: GPUs that carry the same, VMs of
one kind on one GPU. Whether a way can be gone step by step is for the caller to see.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import NamedTuple

from laneway.core.fleet import fitting
from laneway.core.fleet.effort import Effort
from laneway.core.fleet.model import Fleet
from laneway.core.fleet.movable import Leg, Unit, may_go, takes_vgpus
from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.placement import Carried
from laneway.core.vgpu.profiles import framebuffer_mib

Assignment = tuple[tuple[Unit, tuple[int, ...]], ...]
"""Each unit that is wanted or moves, with the GPU to which each of its vGPUs goes."""


class _Load(NamedTuple):
    """What a GPU has in a position: holders that stay, and profiles that come."""

    stays: tuple[tuple[str, Carried], ...]
    comes: tuple[str, ...] = ()


_Position = dict[int, _Load]
"""GPUs that differ from the fleet."""
_Option = tuple[tuple[int, ...], _Position, tuple[Unit, ...]]
"""Where the vGPUs of a unit go, the position after that, and the units that must leave for it."""


class Search:
    """A search through one fleet."""

    def __init__(self, fleet: Fleet, movable: Mapping[str, Unit], effort: int) -> None:
        self._gpus = fleet.gpus
        self._shapes = [fitting.shape_of(gpu) for gpu in fleet.gpus]
        self._placed = [one.mode in (Mode.MIXED_SIZE, Mode.MIG_BACKED) for one in self._shapes]
        self._nodes = {node.name: node for node in fleet.nodes}
        self._movable = movable
        self.effort = Effort(effort)
        self._spare = False
        takes = takes_vgpus(fleet, in_instances=True)
        self._open = [number for number, takes_more in enumerate(takes) if takes_more]
        self._loads = [
            _Load(tuple((one.holder, there[one.name]) for one in gpu.vgpus if one.holder))
            for gpu, there in zip(fleet.gpus, map(fitting.places, fleet.gpus), strict=True)
        ]
        self._alike = self._kinds_of_gpus()
        self._fitting: dict[tuple[int, tuple[Carried, ...], tuple[str, ...]], bool] = {}
        self._targets: dict[tuple[str, Leg], frozenset[int]] = {}

    def assignments(
        self, wanted: Mapping[str, int], budget: int, *, spare: bool = False
    ) -> Iterator[Assignment]:
        """All ways with so many moves at the most. Raises TooLongError.

        `spare`: VMs may leave a GPU to which something goes also where room alone does not demand
        it, for then the driver puts that elsewhere.
        """
        self._spare = spare
        units = tuple(
            Unit("", (Leg("", profile, -1),))
            for profile, count in wanted.items()
            for _ in range(count)
        )
        yield from self._place(_largest_first(units), budget, {}, ())

    def _place(
        self, pending: tuple[Unit, ...], budget: int, position: _Position, done: Assignment
    ) -> Iterator[Assignment]:
        if not pending:
            yield done
            return
        unit, rest = pending[0], pending[1:]
        for targets, after, leave in self._options(unit, rest, budget, position):
            following = _largest_first((*rest, *leave))
            placed = (*done, (unit, targets))
            yield from self._place(following, budget - len(leave), after, placed)

    def _options(
        self, unit: Unit, rest: tuple[Unit, ...], budget: int, position: _Position
    ) -> Iterator[_Option]:
        """Where a unit can go, its vGPUs one after the other, all on one node."""

        def go(
            index: int, targets: tuple[int, ...], position: _Position, leave: tuple[Unit, ...]
        ) -> Iterator[_Option]:
            if index == len(unit.legs):
                yield targets, position, leave
                return
            leg = unit.legs[index]
            node = self._gpus[targets[0]].node if targets else ""
            left = budget - len(leave)
            for number in self._candidates(unit, leg, rest, position, node, exact=left > 0):
                for more in self._leaving(number, leg.profile, position, left):
                    after = self._without(position, more)
                    load = self._load(after, number)
                    after[number] = _Load(load.stays, tuple(sorted((*load.comes, leg.profile))))
                    yield from go(index + 1, (*targets, number), after, (*leave, *more))

        yield from go(0, (), position, ())

    # ------------------------------------------------------------------------------ which GPUs

    def _candidates(
        self,
        unit: Unit,
        leg: Leg,
        rest: tuple[Unit, ...],
        position: _Position,
        node: str,
        *,
        exact: bool,
    ) -> Iterator[int]:
        """GPUs to which a vGPU may go, one of each kind of equals.

        `exact`: something may leave them, so equals are those of one node; otherwise only what
        they carry counts, and which of the units that are left may go there, too.
        """
        allowed = self._allowed(unit, leg)
        others = [self._allowed(one, other) for one in rest for other in one.legs]
        by_node = exact or len(unit.legs) > 1 or any(len(one.legs) > 1 for one in rest)
        for number in position:
            if number in allowed and node in ("", self._gpus[number].node):
                yield number
        for kind in self._alike.values():
            seen: set[tuple[str, tuple[bool, ...]]] = set()
            for number in kind:
                self.effort.look()
                if number not in allowed or number in position:
                    continue
                if node and self._gpus[number].node != node:
                    continue
                if not exact and not self._fits(number, self._loads[number], leg.profile):
                    break
                where = self._gpus[number].node if by_node else ""
                key = where, tuple(number in one for one in others)
                if key not in seen:
                    seen.add(key)
                    yield number
                    if not by_node and not others:
                        break

    def _kinds_of_gpus(self) -> dict[object, list[int]]:
        """GPUs that carry the same and take the same, in order of the fleet."""
        found: dict[object, list[int]] = defaultdict(list)
        for number in self._open:
            gpu = self._gpus[number]
            carried = sorted(
                (one.profile, -1 if one.start is None else one.start, self._kind_of(holder))
                for holder, one in self._loads[number].stays
            )
            what = (gpu.device, gpu.subsystem, gpu.profiles, gpu.ecc, gpu.driver, gpu.functions)
            shape = self._shapes[number]
            mode = shape.mode if self._placed[number] else Mode.SAME_SIZE
            there = (mode, shape.instances, shape.instance_profiles, tuple(carried))
            found[what, there].append(number)
        return found

    def _kind_of(self, holder: str) -> str:
        """The same for holders that can be exchanged: those that stay, or have one vGPU."""
        unit = self._movable.get(holder)
        if unit is None:
            return ""
        if len(unit.legs) > 1:
            return holder
        return f"{unit.how} {sorted(unit.selector.items())}"

    def _allowed(self, unit: Unit, leg: Leg) -> frozenset[int]:
        key = unit.vm, leg
        if key not in self._targets:
            source = self._gpus[leg.gpu] if unit.vm else None
            self._targets[key] = frozenset(
                number
                for number in self._open
                if may_go(unit, leg, source, self._gpus[number], self._nodes)
            )
        return self._targets[key]

    # ------------------------------------------------------------------------------ what leaves

    def _leaving(
        self, number: int, profile: str, position: _Position, budget: int
    ) -> Iterator[tuple[Unit, ...]]:
        """The sets of VMs without which a vGPU fits on a GPU; the least ones, if none is spare."""
        load = self._load(position, number)
        holders = sorted({holder for holder, _ in load.stays if holder in self._movable})
        enough: list[frozenset[str]] = []
        seen: set[tuple[object, ...]] = set()
        for count in range(budget + 1):
            for chosen in combinations(holders, count):
                left = frozenset(chosen)
                if not self._spare and any(one <= left for one in enough):
                    continue
                kept = tuple(pair for pair in load.stays if pair[0] not in left)
                # In same-size mode it does not matter which of equals leaves.
                gone = Counter(
                    (self._kind_of(holder), one.profile, self._placed[number] and one.start)
                    for holder, one in load.stays
                    if holder in left
                )
                key = tuple(sorted(gone.items(), key=repr))
                if key in seen:
                    continue
                seen.add(key)
                self.effort.look()
                if self._fits(number, _Load(kept, load.comes), profile):
                    enough.append(left)
                    yield tuple(self._movable[holder] for holder in chosen)

    def _without(self, position: _Position, leave: tuple[Unit, ...]) -> _Position:
        """The position after VMs have left all of their GPUs."""
        after = dict(position)
        for unit in leave:
            for leg in unit.legs:
                load = self._load(after, leg.gpu)
                stays = tuple(pair for pair in load.stays if pair[0] != unit.vm)
                after[leg.gpu] = _Load(stays, load.comes)
        return after

    def _load(self, position: _Position, number: int) -> _Load:
        return position.get(number) or self._loads[number]

    def _fits(self, number: int, load: _Load, profile: str) -> bool:
        carried = tuple(one for _, one in load.stays)
        key = number, carried, tuple(sorted((*load.comes, profile)))
        if key not in self._fitting:
            more = Counter(key[2])
            self._fitting[key] = fitting.may_fit(self._shapes[number], carried, more)
        return self._fitting[key]


def _largest_first(units: tuple[Unit, ...]) -> tuple[Unit, ...]:
    return tuple(
        sorted(units, key=lambda unit: -sum(framebuffer_mib(leg.profile) for leg in unit.legs))
    )
