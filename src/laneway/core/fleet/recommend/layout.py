"""The layout over a fleet that serves most of a demand, GPU by GPU, with a bound on any other.

vGPUs in use stay where they are, in the mode that their GPU has. Each GPU of the answer is held to
`placement.arrange`, or in the mode MIGBacked to what an agent does there: what the driver would not
make is left out. So the answer can always be
applied, and `optimal` is said only where it reaches the bound all the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from laneway.core.fleet.model import Fleet
from laneway.core.fleet.recommend import in_instances
from laneway.core.fleet.recommend.builder import Program, Variable
from laneway.core.fleet.recommend.classes import GpuClass, classes
from laneway.core.fleet.recommend.program import program
from laneway.core.fleet.recommend.solve import solve
from laneway.core.gpu.modes import Mode
from laneway.core.vgpu.card import MOST_TIME_SLICED
from laneway.core.vgpu.placement import arrange
from laneway.core.vgpu.profiles import HALF_GIB_MIB, framebuffer_mib

SECONDS = 10.0


class GpuLayout(msgspec.Struct, frozen=True):
    """What one GPU is to have."""

    gpu: str
    node: str
    mode: Mode
    new: Mapping[str, int]
    """vGPUs for the demand, by profile."""
    held: Mapping[str, int]
    """Those in use, that stay."""


class Recommendation(msgspec.Struct, frozen=True):
    """The answer. GPUs that the demand does not need are not in it."""

    gpus: tuple[GpuLayout, ...]
    demand: Mapping[str, int]
    served: Mapping[str, int]
    served_mib: int
    bound_mib: int
    """No layout serves more memory of the demand."""

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no layout serves more."""
        return self.served_mib == self.bound_mib


def recommend(
    fleet: Fleet, demand: Mapping[str, int], *, seconds: float = SECONDS
) -> Recommendation:
    """The best layout found within a time. Raises SolverMissingError."""
    wanted = {name: count for name, count in demand.items() if count > 0}
    groups = classes(fleet)
    asked = program(groups, wanted)
    found = solve(asked, seconds)
    layouts = [
        layout
        for number, group in enumerate(groups)
        for layout in _of_class(group, _counted(asked, found.values, number))
    ]
    served: Counter[str] = Counter()
    for layout in layouts:
        served.update(layout.new)
    mib = _mib(served)
    bound = int((found.bound + asked.slack + 1e-6) // asked.unit) * HALF_GIB_MIB
    return Recommendation(
        gpus=tuple(sorted(layouts, key=lambda one: (one.node, one.gpu))),
        demand=wanted,
        served=served,
        served_mib=mib,
        bound_mib=max(mib, min(bound, _mib(wanted))),
    )


def _mib(counts: Mapping[str, int]) -> int:
    sizes = ((framebuffer_mib(name), count) for name, count in counts.items())
    return sum(size // HALF_GIB_MIB * HALF_GIB_MIB * count for size, count in sizes)


_Counted = list[tuple[Variable, int]]


def _counted(asked: Program, values: Sequence[int], number: int) -> _Counted:
    pairs = zip(asked.variables, values, strict=True)
    return [(one, value) for one, value in pairs if one.group == number and value]


def _of_class(group: GpuClass, counted: _Counted) -> Iterator[GpuLayout]:
    gpus = iter(group.gpus)
    held = Counter(one.profile for one in group.held)
    for one, count in counted:
        if one.what != "gpus":
            continue
        vgpus = [
            (other, many)
            for other, many in counted
            if (other.what, other.mode, other.size) == ("vgpus", one.mode, one.size)
        ]
        for new in _dealt(group, one.mode, counted, vgpus, count):
            if one.mode is Mode.MIG_BACKED:
                kept = in_instances.kept(group, new)
            else:
                kept = _arranged(group, new, mixed=one.mode is Mode.MIXED_SIZE)
            gpu = next(gpus)
            if kept:
                yield GpuLayout(gpu.name, gpu.node, one.mode, kept, held)


def _dealt(
    group: GpuClass, mode: Mode, counted: _Counted, vgpus: _Counted, count: int
) -> Iterable[Counter[str]]:
    """What each of so many GPUs in a mode gets; `vgpus`: those of them that are for it."""
    if mode is Mode.MIG_BACKED:
        return in_instances.deal(group, counted, count)
    return (_deal_runs if mode is Mode.MIXED_SIZE else _deal)(group, vgpus, count)


def _deal(group: GpuClass, vgpus: _Counted, count: int) -> list[Counter[str]]:
    """Of one size, in turn: those with the smaller maximum first, so that all maxima hold."""
    found: list[Counter[str]] = [Counter() for _ in range(count)]
    vgpus.sort(key=lambda pair: (group.card.kinds[pair[0].profile].maximum, pair[0].profile))
    every = [one.profile for one, many in vgpus for _ in range(many)]
    for index, name in enumerate(every):
        found[index % count][name] += 1
    return found


def _deal_runs(group: GpuClass, vgpus: _Counted, count: int) -> list[Counter[str]]:
    """Runs of slots by their start, each to the first GPU that is free from there on."""
    found: list[Counter[str]] = [Counter() for _ in range(count)]
    ends, room = [0] * count, group.room(MOST_TIME_SLICED)
    for one, many in sorted(vgpus, key=lambda pair: (pair[0].start or 0, pair[0].profile)):
        for _ in range(many):
            start = one.start or 0
            free = (at for at in range(count) if ends[at] <= start and found[at].total() < room)
            at = next(free, None)
            if at is not None:
                found[at][one.profile] += 1
                ends[at] = start + group.card.kinds[one.profile].slots
    return found


def _arranged(group: GpuClass, new: Counter[str], *, mixed: bool) -> Counter[str]:
    """As many of them as the driver makes; nearly always all."""
    kept = +new
    while kept and arrange(group.card, group.held, kept, mixed=mixed) is None:
        smallest = min(kept, key=lambda name: (framebuffer_mib(name), name))
        kept -= Counter([smallest])
    return kept


class Group(msgspec.Struct, frozen=True):
    """GPUs that get the same: what one VGPULayout says."""

    gpus: tuple[str, ...]
    mode: Mode
    vgpus: Mapping[str, int]
    """On each of them, those in use included."""


def as_groups(found: Recommendation) -> tuple[Group, ...]:
    """The recommendation in as few layouts as there are kinds of GPUs in it, the largest first."""
    alike: dict[tuple[Mode, tuple[tuple[str, int], ...]], list[str]] = defaultdict(list)
    for one in found.gpus:
        every = Counter(one.new) + Counter(one.held)
        alike[one.mode, tuple(sorted(every.items()))].append(one.gpu)
    groups = (Group(tuple(gpus), mode, dict(vgpus)) for (mode, vgpus), gpus in alike.items())
    return tuple(sorted(groups, key=lambda one: (-len(one.gpus), one.gpus)))
