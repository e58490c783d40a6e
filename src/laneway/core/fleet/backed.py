"""Room for MIG-backed vGPUs on a fleet's GPUs in the mode MIGBacked.

A MIG-backed vGPU sits in a GPU instance of the kind that its profile needs; one instance holds one
framebuffer size. The driver puts a new vGPU into the first instance with room. Where none has room,
the plan makes an instance, and may destroy those that carry no vGPU. An instance with a vGPU that
stays is never destroyed. Of a GPU whose instances are not all known nothing is made: what is there
could be in the way.

In shapes of this module the start of a vGPU is that of its GPU instance, in memory slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from laneway.core.fleet import shape as shapes
from laneway.core.fleet.model import Gpu
from laneway.core.fleet.shape import How, Shape, Taken, resource_of, taken
from laneway.core.gpu.modes import GpuInstance, GpuInstanceProfile, Mode
from laneway.core.mig.homes import Home, creation_order
from laneway.core.mig.instances import InstanceSet, Obstacle, arrange_instances, instances_needed
from laneway.core.mig.positions import positions
from laneway.core.mig.profiles import expected_profiles, per_instance, serving
from laneway.core.vgpu.placement import Carried
from laneway.core.vgpu.profiles import Profile, framebuffer_mib, profile, profiles_on


@lru_cache(maxsize=64)
def profiles(device: str, names: tuple[str, ...]) -> Mapping[str, str]:
    """The MIG-backed profiles of a board by resource; `names`: what its driver lists."""
    listed = [one for one in map(profile, names) if one is not None]
    boards = {one.board for one in listed}
    known = [one for one in profiles_on(device) if not boards or one.board in boards]
    return {resource_of(one.name): one.name for one in (*known, *listed) if one.mig_backed}


def kinds(gpu: Gpu) -> tuple[GpuInstanceProfile, ...]:
    """The kinds of GPU instances that its board has, with their places; empty: it has no MIG."""
    return gpu.instance_profiles or expected_profiles(gpu.device)


def shape_of(gpu: Gpu) -> Shape:
    """A GPU in the mode MIGBacked as it is."""
    there = _instances(gpu)
    # Equal GPUs have one shape, whatever numbers their instances have.
    unnumbered = tuple(msgspec.structs.replace(one, id=-1) for one in there or ())
    return shapes.shape_of(
        gpu,
        {one.id: one.start for one in there or ()},
        unnumbered,
        kinds(gpu) if there is not None else (),
    )


def starts(gpu: Gpu) -> dict[int | None, int]:
    """Where its GPU instances begin, by their numbers; empty: they are not all known."""
    return {one.id: one.start for one in _instances(gpu) or ()}


def _instances(gpu: Gpu) -> tuple[GpuInstance, ...] | None:
    """In the order of their places; None: they are not all known."""
    numbers = {vgpu.instance for vgpu in gpu.vgpus}
    if gpu.instances or not numbers:
        known = {one.id for one in gpu.instances}
        ordered = tuple(sorted(gpu.instances, key=lambda one: one.start))
        return ordered if numbers <= known else None
    offered = kinds(gpu)
    named: dict[int, str] = {}
    for vgpu in gpu.vgpus:
        found = serving(vgpu.profile, offered)
        if found is None or vgpu.instance is None:
            return None
        named[vgpu.instance] = found[1].name
    places = positions(gpu.device, named.items())
    if places is None:
        return None
    found_ = (GpuInstance(n, one.profile, -1, one.start, one.size) for n, one in places.items())
    return tuple(sorted(found_, key=lambda one: one.start))


@lru_cache(maxsize=65536)
def take(shape: Shape, resource: str) -> Taken | None:
    """One more vGPU of a resource; None where there is no room for it."""
    if shape.claimed:
        return None
    for index, one in enumerate(shape.free):
        if resource_of(one.profile) == resource:
            rest = shape.free[:index] + shape.free[index + 1 :]
            return taken(shape, one, How.EXISTS, free=rest, instances=shape.instances)
    found = _served(shape, resource)
    if found is None:
        return None
    for free, how in ((shape.free, How.MADE), ((), How.MADE_IN_PLACE_OF_FREE)):
        there = (*shape.kept, *free)
        if shape.full(len(there)):
            continue
        home = _home(shape, there, *found)
        if home is not None:
            instances, start = home
            made = Carried(found[0].name, start)
            return taken(shape, made, how, free=free, instances=instances)
    return None


def _served(shape: Shape, resource: str) -> tuple[Profile, GpuInstanceProfile] | None:
    """The profile of a resource on a GPU, and the GPU instance that it needs; None: it has none."""
    name = profiles(shape.device, shape.profiles).get(resource)
    return serving(name, shape.instance_profiles) if name else None


def _home(
    shape: Shape, there: Sequence[Carried], vgpu: Profile, instance: GpuInstanceProfile
) -> tuple[tuple[GpuInstance, ...], int] | None:
    """The GPU instances once a vGPU is made, and which one it is in; None: there is no room."""
    most = per_instance(vgpu, instance)
    for one in shape.instances:
        inside = [framebuffer_mib(each.profile) for each in there if each.start == one.start]
        alike = set(inside) <= {vgpu.framebuffer_mib}
        if one.profile == instance.name and alike and len(inside) < most:
            return shape.instances, one.start
    pinned = frozenset(one.start for one in there if one.start is not None)
    needed = Counter(one.profile for one in shape.instances if one.start in pinned)
    needed[instance.name] += 1
    found = arrange_instances(shape.instance_profiles, shape.instances, needed, pinned=pinned)
    if isinstance(found, Obstacle):
        return None
    [(kind, start)] = found.create
    new = GpuInstance(-1, kind.name, kind.id, start, kind.size)
    stay = (one for one in shape.instances if one not in found.destroy)
    return tuple(sorted((*stay, new), key=lambda one: one.start)), start


@lru_cache(maxsize=65536)
def room_for(shape: Shape, resource: str) -> int:
    """How many vGPUs of one resource VMs could get there, if it were the only one."""
    count = 0
    while (more := take(shape, resource)) is not None:
        shape = more.shape
        count += 1
    return count


def fit(
    offered: Sequence[GpuInstanceProfile],
    there: Sequence[GpuInstance],
    kept: Sequence[Carried],
    wanted: Mapping[str, int],
) -> bool:
    """Whether an agent makes vGPUs, by profile, together next to those that stay.

    `offered`: the kinds of GPU instances; `there`: those that exist, of which it destroys some
    without a vGPU that stays where they are in the way.
    """
    found = _arranged(offered, there, kept, wanted)
    if found is None:
        return False
    made = [Home(kind.name) for kind, _ in found.create]
    stay = [_home_of(one, kept) for one in there if one not in found.destroy]
    # Ids of instances that are still to be made may come before or after the others.
    return creation_order(wanted, offered, ([*made, *stay], [*stay, *made])) is not None


def have_places(
    offered: Sequence[GpuInstanceProfile],
    there: Sequence[GpuInstance],
    kept: Sequence[Carried],
    wanted: Mapping[str, int],
) -> bool:
    """Whether there are places for the GPU instances that all of these need.

    Into which of them the driver puts which vGPU is left aside, so all of it may still not fit.
    """
    starts_ = {one.start for one in kept}
    in_use = [one for one in there if one.start in starts_]
    return _arranged(offered, in_use, kept, wanted) is not None


def _arranged(
    offered: Sequence[GpuInstanceProfile],
    there: Sequence[GpuInstance],
    kept: Sequence[Carried],
    wanted: Mapping[str, int],
) -> InstanceSet | None:
    taken = [(one.start, one.profile) for one in kept if one.start is not None]
    needed = instances_needed(
        Counter(one.profile for one in kept) + Counter(wanted), offered, taken
    )
    if isinstance(needed, Obstacle):
        return None
    pinned = frozenset(start for start, _ in taken)
    found = arrange_instances(offered, there, needed, pinned=pinned)
    return None if isinstance(found, Obstacle) else found


def _home_of(one: GpuInstance, kept: Sequence[Carried]) -> Home:
    inside = [framebuffer_mib(vgpu.profile) for vgpu in kept if vgpu.start == one.start]
    sizes = {*inside}
    if len(sizes) > 1:  # Another program allowed that: it takes no more.
        sizes = {-1}
    return Home(one.profile, sizes.pop() if sizes else 0, len(inside))


def lack(shape: Shape, resource: str) -> str:
    """Why a GPU has no room, as the rest of a sentence; empty: its board has no such profile."""
    if resource not in profiles(shape.device, shape.profiles):
        return ""
    if shape.mode != Mode.MIG_BACKED:
        return f"in mode {shape.mode or Mode.SAME_SIZE}, which has no such vGPUs"
    if not shape.instance_profiles:
        return "of which the GPU instances are not all known"
    return "without a place for the GPU instance that it needs"
