"""GPUs in the mode MIGBacked in the program of a recommended layout.

A vGPU takes a share of a GPU instance of its kind, and an instance holds one framebuffer size. An
instance takes a run of memory slices that begins at one of the places of its kind, so over all GPUs
of a class no slice is taken more often than there are GPUs, as vGPUs take slots in mixed-size mode.
Instances with a vGPU that is in use stay where they are; others may go. Compute slices, and in
which order the driver fills instances, are not in the program: each GPU of the answer is held to
both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from laneway.core.fleet import backed
from laneway.core.fleet.recommend.builder import Builder, Variable
from laneway.core.fleet.recommend.classes import GpuClass
from laneway.core.gpu.modes import Mode
from laneway.core.mig.profiles import per_instance, serving
from laneway.core.vgpu.profiles import framebuffer_mib

_Term = tuple[int, float]


class _Share(NamedTuple):
    """The vGPUs that can be in one GPU instance together."""

    instance: str
    """Kind of the instance."""
    framebuffer_mib: int


def _shares(group: GpuClass, names: Iterable[str]) -> dict[_Share, tuple[int, list[str]]]:
    """How many of these one instance takes, and the profiles."""
    found: dict[_Share, tuple[int, list[str]]] = {}
    for name in names:
        if name in group.backed and (served := serving(name, group.offered)) is not None:
            vgpu, instance = served
            share = _Share(instance.name, vgpu.framebuffer_mib)
            found.setdefault(share, (per_instance(vgpu, instance), []))[1].append(name)
    return found


def _room(group: GpuClass, share: _Share, most: int) -> int:
    """In the instances that stay on one GPU."""
    inside = Counter(one.start for one in group.held)
    size = {one.start: framebuffer_mib(one.profile) for one in group.held}
    return sum(
        max(0, most - inside[one.start])
        for one in group.instances
        if one.profile == share.instance and size[one.start] == share.framebuffer_mib
    )


# --------------------------------------------------------------------------------- the program


def add(
    built: Builder, number: int, group: GpuClass, gpus: int
) -> dict[str, list[tuple[int, float]]]:
    """What the GPUs of a class can be given; `gpus`: the variable that counts those in the mode.

    Gives the terms of each profile.
    """
    shares = _shares(group, built.demand)
    instances = _instances(built, number, group, gpus, {one.instance for one in shares})
    made: dict[str, list[_Term]] = {}
    divided: dict[str, list[_Term]] = defaultdict(list)
    for share, (most, names) in shares.items():
        variable = Variable(number, "shares", Mode.MIG_BACKED, share.instance)
        many = built.add(variable, len(group.gpus) * len(instances[share.instance]), 0)
        divided[share.instance].append((many, 1))
        here: list[_Term] = []
        for name in names:
            variable = Variable(number, "vgpus", Mode.MIG_BACKED, name)
            worth = built.worth_of(share.framebuffer_mib)
            made[name] = [(built.add(variable, built.demand[name], worth), 1)]
            here += made[name]
        built.limit([*here, (many, -most), (gpus, -_room(group, share, most))])
    for kind, terms in divided.items():
        built.limit([*terms, *((one, -factor) for one, factor in instances[kind])])
    every = [term for terms in made.values() for term in terms]
    if group.gpus[0].functions:
        built.limit([*every, (gpus, -group.room(group.gpus[0].functions))])
    return made


def _instances(
    built: Builder, number: int, group: GpuClass, gpus: int, wanted: set[str]
) -> dict[str, list[_Term]]:
    taken = {at for one in group.instances for at in range(one.start, one.start + one.size)}
    there = Counter(one.profile for one in group.instances)
    found: dict[str, list[_Term]] = {}
    over: defaultdict[int, list[_Term]] = defaultdict(list)
    for kind in group.offered:
        if kind.name in wanted:
            terms = found.setdefault(kind.name, [])
            for start in kind.starts:
                slices = range(start, start + kind.size)
                if taken.isdisjoint(slices):
                    variable = Variable(
                        number, "instances", Mode.MIG_BACKED, kind.name, start=start
                    )
                    terms.append((built.add(variable, len(group.gpus), 0), 1))
                    for at in slices:
                        over[at].append(terms[-1])
            built.limit([*terms, (gpus, -max(0, kind.total - there[kind.name]))])
    for terms in over.values():
        built.limit([*terms, (gpus, -1)])
    return found


# ---------------------------------------------------------------------------------- the answer


def deal(
    group: GpuClass, counted: Sequence[tuple[Variable, int]], count: int
) -> Iterator[Counter[str]]:
    """The vGPUs of each of so many GPUs: instances by their start, then what they hold."""
    ends = [0] * count
    homes: list[list[str]] = [[] for _ in range(count)]
    placed = [pair for pair in counted if pair[0].what == "instances"]
    totals = {kind.name: kind.total for kind in group.offered}
    for one, many in sorted(placed, key=lambda pair: (pair[0].start or 0, pair[0].profile)):
        size = next(kind.size for kind in group.offered if kind.name == one.profile)
        for _ in range(many):
            start = one.start or 0
            free = (
                at
                for at in range(count)
                if ends[at] <= start and homes[at].count(one.profile) < totals[one.profile]
            )
            if (at := next(free, None)) is not None:
                homes[at].append(one.profile)
                ends[at] = start + size
    left = Counter({one.profile: many for one, many in counted if one.what == "vgpus"})
    yield from _filled(group, homes, left)


def _filled(
    group: GpuClass, homes: Sequence[list[str]], left: Counter[str]
) -> Iterator[Counter[str]]:
    shares = _shares(group, left)
    for there in homes:
        found: Counter[str] = Counter()
        functions = group.gpus[0].functions
        room = group.room(functions) if functions else left.total()
        for share, (most, names) in sorted(shares.items(), key=lambda pair: -_size(pair[0])):
            every = [name for name in names for _ in range(left[name])]
            spare = _room(group, share, most)
            while every and found.total() < room and (spare or share.instance in there):
                if not spare:
                    there.remove(share.instance)
                    spare = most
                taken = every[: min(spare, room - found.total())]
                every = every[len(taken) :]
                spare = 0
                found.update(taken)
                left.subtract(taken)
        yield found


def _size(share: _Share) -> int:
    return share.framebuffer_mib


def kept(group: GpuClass, new: Counter[str]) -> Counter[str]:
    """As many of them as an agent makes on one GPU; nearly always all."""
    found = +new
    while found and not backed.fit(group.offered, group.instances, group.held, found):
        found -= Counter([min(found, key=lambda name: (framebuffer_mib(name), name))])
    return found
