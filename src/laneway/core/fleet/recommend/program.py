"""The integer program of a recommended layout: its variables, its limits, and what they stand for.

It follows the rules of `core.vgpu.placement`. Same size: of all GPUs of a class with one size, no
more vGPUs than their maxima. Mixed size: a vGPU takes a run of memory slots, and over all GPUs of
the class no slot is taken more often than there are GPUs; runs that obey this can always be dealt
out to the GPUs, so one number for each place of the whole class is enough. That the driver takes
the lowest free place is not in the program; `layout.py` holds every GPU of the answer to it. The
mode MIGBacked is in `in_instances`.

First the memory served counts. Among layouts that serve the same, the fewest GPUs are used, the
fewest change their mode, and most of the vGPUs without a holder stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from laneway.core.fleet.recommend import in_instances
from laneway.core.fleet.recommend.builder import Builder, Program, Variable
from laneway.core.fleet.recommend.classes import GpuClass
from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.card import MOST_TIME_SLICED, Kind


def program(groups: Sequence[GpuClass], demand: Mapping[str, int]) -> Program:
    """The program of a demand, by profile."""
    gpus = sum(len(group.gpus) for group in groups)
    idle = sum(len(group.gpus) * sum(group.idle.values()) for group in groups)
    unit = 2 * gpus + idle + 1
    built = Builder(demand, unit)
    served: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, group in enumerate(groups):
        kinds = [group.card.kinds[name] for name in demand if name in group.card.kinds]
        used = []
        for mode in group.modes:
            if mode is Mode.MIG_BACKED:
                in_use = [_gpus(built, number, group, mode)]
                made = in_instances.add(built, number, group, in_use[0])
            else:
                here = _mixed if mode is Mode.MIXED_SIZE else _same
                in_use, made = here(built, number, group, kinds)
            used += in_use
            _keep(built, number, group, mode, made)
            for name, terms in made.items():
                served[name] += terms
        built.limit([(one, 1) for one in used], len(group.gpus))
    for name, terms in served.items():
        built.limit(terms, demand[name])
    return Program(built.variables, built.most, built.worth, built.rows, unit, 2 * gpus)


_Made = dict[str, list[tuple[int, float]]]


def _gpus(built: Builder, number: int, group: GpuClass, mode: Mode, size: int = 0) -> int:
    variable = Variable(number, "gpus", mode, size=size)
    return built.add(variable, len(group.gpus), -1 - (mode is not group.mode))


def _same(
    built: Builder,
    number: int,
    group: GpuClass,
    kinds: Sequence[Kind],
) -> tuple[list[int], _Made]:
    held = {group.card.kinds[one.profile].framebuffer_mib for one in group.held}
    sizes = {kind.framebuffer_mib for kind in kinds}
    in_use: list[int] = []
    made: _Made = {}
    for size in sorted(sizes if not held else sizes & held):
        gpus = _gpus(built, number, group, Mode.SAME_SIZE, size)
        in_use.append(gpus)
        terms: list[tuple[int, float]] = []
        # Profiles with the smaller maximum first, as in `placement`: each is checked when made.
        alike = [kind for kind in kinds if kind.framebuffer_mib == size]
        for kind in sorted(alike, key=lambda kind: (kind.maximum, kind.name)):
            variable = Variable(number, "vgpus", Mode.SAME_SIZE, kind.name, size)
            made[kind.name] = [
                (
                    built.add(
                        variable, built.demand[kind.name], built.worth_of(kind.framebuffer_mib)
                    ),
                    1,
                )
            ]
            terms += made[kind.name]
            built.limit([*terms, (gpus, -group.room(kind.maximum))])
    return in_use, made


def _mixed(
    built: Builder,
    number: int,
    group: GpuClass,
    kinds: Sequence[Kind],
) -> tuple[list[int], _Made]:
    gpus = _gpus(built, number, group, Mode.MIXED_SIZE)
    taken = {
        slot for one in group.held for slot in _slots(group.card.kinds[one.profile], one.start)
    }
    made: _Made = {}
    over: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for kind in kinds:
        for start in kind.ids:
            slots = _slots(kind, start)
            if taken.isdisjoint(slots):
                most = min(len(group.gpus), built.demand[kind.name])
                variable = Variable(number, "vgpus", Mode.MIXED_SIZE, kind.name, start=start)
                term = built.add(variable, most, built.worth_of(kind.framebuffer_mib)), 1
                made.setdefault(kind.name, []).append(term)
                for slot in slots:
                    over[slot].append(term)
    for terms in over.values():
        built.limit([*terms, (gpus, -1)])
    every = [term for terms in made.values() for term in terms]
    built.limit([*every, (gpus, -group.room(MOST_TIME_SLICED))])
    return [gpus], made


def _slots(kind: Kind, start: int | None) -> range:
    return range(start or 0, (start or 0) + kind.slots)


def _keep(built: Builder, number: int, group: GpuClass, mode: Mode, made: _Made) -> None:
    """Each vGPU without a holder that the layout has as well is worth a little."""
    if mode is not group.mode:
        return
    for name, count in group.idle.items():
        if name in made:
            variable = Variable(number, "kept", mode, name)
            kept = built.add(variable, count * len(group.gpus), 1)
            built.limit([(kept, 1), *((term, -1) for term, _ in made[name])])
