"""GPU instances: which ones a set of MIG-backed vGPUs needs, and where on the card they can be.

A GPU instance takes a run of memory slices that begins at one of a few places of its profile, and
its part of the card's compute slices and media engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import msgspec

from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, GpuModes
from laneway.core.inventory import ConfiguredVgpu
from laneway.core.mig.profiles import compute_slices, per_instance, serving
from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    Step,
)

_ENGINES = ("video decoders", "video encoders", "JPEG decoders", "optical flow engines")


class InstanceSet(msgspec.Struct, frozen=True):
    """How to come from the GPU instances that there are to those that are desired."""

    destroy: tuple[GpuInstance, ...] = ()
    create: tuple[tuple[GpuInstanceProfile, int], ...] = ()
    """Profile and placement."""


class Obstacle(msgspec.Struct, frozen=True):
    """Why GPU instances do not fit, as the rest of a sentence."""

    text: str


# ------------------------------------------------------------------------- which ones are needed


def instances_needed(
    wanted: Mapping[str, int],
    offered: Iterable[GpuInstanceProfile],
    taken: Iterable[tuple[int, str]] = (),
) -> dict[str, int] | Obstacle:
    """GPU instances, by profile, that MIG-backed vGPUs need: one holds one framebuffer size.

    `taken`: of those vGPUs that exist and stay, the GPU instance by its id, and the profile. They
    may be spread over more instances than they would fill.
    """
    choices = tuple(offered)
    most: dict[tuple[str, int], int] = {}
    counts: Counter[tuple[str, int]] = Counter()
    group_of: dict[str, tuple[str, int]] = {}
    for name, count in wanted.items():
        found = serving(name, choices)
        if found is None:
            return Obstacle(f"the card has no instance for {name}; it has {_list(choices)}")
        vgpu, instance = found
        group = group_of[name] = instance.name, vgpu.framebuffer_mib
        most[group] = per_instance(vgpu, instance)
        counts[group] += count
    spread = Counter(group for _, group in {(one, group_of[name]) for one, name in taken})
    needed: Counter[str] = Counter()
    for group, count in counts.items():
        needed[group[0]] += max(-(-count // most[group]), spread[group])
    return dict(needed)


def _list(offered: Iterable[GpuInstanceProfile]) -> str:
    return ", ".join(one.name for one in offered) or "no GPU instance at all"


# ------------------------------------------------------------------------------- where they can be


def arrange_instances(
    offered: Iterable[GpuInstanceProfile],
    existing: Iterable[GpuInstance],
    wanted: Mapping[str, int],
    *,
    pinned: frozenset[int] = frozenset(),
    carrying: frozenset[int] = frozenset(),
    exact: bool = False,
) -> InstanceSet | Obstacle:
    """At least these GPU instances, with as few as possible of those that there are destroyed.

    Instances that were not requested stay unless they are in the way, or (`exact`) go as well.
    `pinned`: placements of instances in use; `carrying`: of those with vGPUs, which are destroyed
    last.
    """
    profiles = {one.name: one for one in offered}
    unknown = [name for name in wanted if name not in profiles]
    if unknown:
        return Obstacle(f"the card has no {', '.join(unknown)}; it has {_list(profiles.values())}")
    there = sorted(existing, key=lambda one: one.start)
    for destroy in _sacrifices(there, pinned, carrying, last_first=exact):
        kept = [one for one in there if one not in destroy]
        if exact and Counter(one.profile for one in kept) - Counter(wanted):
            continue
        missing = Counter(wanted)
        missing.subtract(one.profile for one in kept)
        create = _place(profiles, kept, +missing)
        if create is not None:
            return InstanceSet(destroy, create)
    return Obstacle(_obstacle(profiles, there, wanted, pinned))


def _sacrifices(
    there: list[GpuInstance],
    pinned: frozenset[int],
    carrying: frozenset[int],
    *,
    last_first: bool,
) -> Iterator[tuple[GpuInstance, ...]]:
    """Every choice of instances to destroy, the smallest loss first."""
    free = [one for one in there if one.start not in pinned]
    if last_first:
        free.reverse()  # The driver fills the first ones first.

    def loss(some: Iterable[GpuInstance]) -> tuple[int, int]:
        return (
            sum(one.start in carrying for one in some),
            sum(one.compute_instances > 0 for one in some),
        )

    for count in range(len(free) + 1):
        yield from sorted(combinations(free, count), key=loss)


def _place(
    profiles: dict[str, GpuInstanceProfile], kept: list[GpuInstance], missing: Counter[str]
) -> tuple[tuple[GpuInstanceProfile, int], ...] | None:
    """Placements next to the kept instances, the largest first; None when there are none."""
    counts = Counter(one.profile for one in kept) + missing
    if any(counts[name] > profiles[name].total for name in missing):
        return None
    if _slices(counts) > _all_slices(profiles) or _short_of(profiles, counts):
        return None
    queue = sorted(
        (profiles[name] for name in missing.elements()), key=lambda one: (-one.size, one.name)
    )
    used = 0
    for one in kept:
        used |= _run(one.start, one.size)

    def go(index: int, used: int, after: int) -> list[tuple[GpuInstanceProfile, int]] | None:
        if index == len(queue):
            return []
        one = queue[index]
        for start in sorted(one.starts):
            if start > after and not _run(start, one.size) & used:
                # Those of one profile are alike: they are tried in one order only.
                again = index + 1 < len(queue) and queue[index + 1] == one
                tail = go(index + 1, used | _run(start, one.size), start if again else -1)
                if tail is not None:
                    return [(one, start), *tail]
        return None

    found = go(0, used, -1)
    return None if found is None else tuple(found)


def _run(start: int, size: int) -> int:
    return ((1 << size) - 1) << start


def _slices(counts: Mapping[str, int]) -> int:
    return sum(compute_slices(name) * count for name, count in counts.items())


def _all_slices(profiles: Mapping[str, GpuInstanceProfile]) -> int:
    """Of the card: of the profile that takes all of it, or of as many as it takes of another."""
    memory = max((one.size * max(1, one.total) for one in profiles.values()), default=0)
    whole = [compute_slices(name) for name, one in profiles.items() if one.size >= memory]
    each = (compute_slices(name) * max(1, one.total) for name, one in profiles.items())
    return max(whole or each, default=0)


def _short_of(profiles: Mapping[str, GpuInstanceProfile], counts: Mapping[str, int]) -> str:
    """Which media engines are too few, as the rest of a sentence; the whole card has all."""
    reported = (one.engines for one in profiles.values() if one.engines)
    whole = [max(column) for column in zip(*reported, strict=False)]
    for kind, (name, most) in enumerate(zip(_ENGINES, whole, strict=False)):
        need = sum(
            profiles[one].engines[kind] * count
            for one, count in counts.items()
            if one in profiles and profiles[one].engines
        )
        if need > most:
            return f"they need {need} of {most} {name}"
    return ""


def _obstacle(
    profiles: dict[str, GpuInstanceProfile],
    there: list[GpuInstance],
    wanted: Mapping[str, int],
    pinned: frozenset[int],
) -> str:
    for name, count in wanted.items():
        if count > profiles[name].total:
            return f"the card has room for {profiles[name].total} x {name}, not {count}"
    if _slices(wanted) > _all_slices(profiles):
        return f"they need {_slices(wanted)} of {_all_slices(profiles)} compute slices"
    unreported = [name for name, count in wanted.items() if count and not profiles[name].starts]
    if unreported:
        return f"the driver does not report where {', '.join(unreported)} can be"
    memory = sum(profiles[name].size * count for name, count in wanted.items())
    most = max(max(one.starts, default=0) + one.size for one in profiles.values())
    if memory > most:
        return f"they need {memory} of {most} memory slices"
    if short := _short_of(profiles, wanted):
        return short
    if _place(profiles, [], Counter(wanted)) is not None:
        stay = ", ".join(f"{one.profile} at {one.start}" for one in there if one.start in pinned)
        return f"instances in use are in the way: {stay}"
    return "they overlap at every placement"


def how_many_more(
    one: GpuInstanceProfile,
    offered: Iterable[GpuInstanceProfile],
    existing: Iterable[GpuInstance],
) -> int:
    """How many GPU instances of a profile could be made in addition."""
    there = list(existing)
    profiles = {known.name: known for known in (*offered, one)}
    count = 0
    while _place(profiles, there, Counter({one.name: count + 1})) is not None:
        count += 1
    return count


def placements_of(vgpu: ConfiguredVgpu, modes: GpuModes) -> frozenset[int]:
    """Where the GPU instance of a vGPU is: all that it may be in, where that is not known."""
    known = frozenset(one.start for one in modes.instances if one.id == vgpu.gpu_instance)
    found = serving(vgpu.type_name, modes.profiles)
    return known or frozenset(
        one.start for one in modes.instances if found and one.profile == found[1].name
    )


# ------------------------------------------------------------------------------------------- steps


def dismantle(gpu: PciAddress, instances: Iterable[GpuInstance]) -> list[Step]:
    """Steps that take GPU instances away, each with what is in it."""
    steps: list[Step] = []
    for one in instances:
        if one.compute_instances:
            steps.append(DestroyComputeInstance(gpu, one.start))
        steps.append(DestroyGpuInstance(gpu, one.profile, one.profile_id, one.start))
    return steps


def assemble(gpu: PciAddress, found: InstanceSet) -> list[Step]:
    """Steps to a set of GPU instances, each new one with its compute instance."""
    steps = dismantle(gpu, found.destroy)
    for one, start in found.create:
        steps.append(CreateGpuInstance(gpu, one.name, one.id, start))
        steps.append(CreateComputeInstance(gpu, start))
    return steps
