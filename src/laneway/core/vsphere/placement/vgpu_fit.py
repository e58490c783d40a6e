"""What a GPU takes: vGPUs of one size, of several sizes, or of MIG, by the mode that it is in.

vCenter tells sizes in whole GiB, and none before 7.0.3; then the profile's name says the size. A
GPU's memory is reported without what the card keeps for itself, so that the largest profile can
look too large for it: a GPU has room for each profile that it supports. A GPU with a vGPU of
unknown size counts as full.

Where vGPUs sit on a GPU vCenter does not tell. So in mixed sizes each takes as much as the places
that the driver has for its size leave to it. Of MIG each takes a GPU instance, or one of the places
in one: those of one size share instances, where a card can share them, and no others do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from laneway.core.mig.profiles import MOST_PER_INSTANCE
from laneway.core.vgpu import profiles as catalogue
from laneway.core.vgpu.card import MOST_TIME_SLICED
from laneway.core.vgpu.profiles import MIB_PER_GIB
from laneway.core.vsphere.inventory.hosts import (
    MIXED_SIZE,
    MULTI_INSTANCE,
    SAME_SIZE,
    Profile,
    SharedGpu,
)
from laneway.core.vsphere.inventory.profiles import named

_SLICE = 1024
"""One slice of compute; an instance with an unknown number takes one part."""

_MOST_IN_INSTANCES = 7 * MOST_PER_INSTANCE

_MEDIA = "ME"
"""Variant of profiles with the media engines of which a card has one set."""


class Size(NamedTuple):
    """What one vGPU takes of its GPU, or the GPU instance that it needs."""

    mib: int
    """0: not known."""
    framebuffer: int
    """MiB; equal on a GPU in same-size mode."""
    slices: int = 0
    """Parts of compute; 0 for a time-sliced vGPU."""
    shared_by: int = 1
    """So many of them have one GPU instance together."""
    media: bool = False
    """It needs the media engines that only one vGPU of a card can have."""
    max_per_gpu: int = MOST_TIME_SLICED
    """So many vGPUs can be on a GPU that has such a one."""


class Load(NamedTuple):
    """What a GPU carries."""

    mib: int = 0
    vgpus: int = 0
    framebuffer: int = 0
    """Of the vGPU that came last; 0: there is none."""
    slices: int = 0
    full: bool = False
    """It carries something that leaves no room for certain."""
    media: bool = False
    """Its media engines are in use."""
    places: tuple[tuple[int, int, int], ...] = ()
    """Free ones in GPU instances: their slices and framebuffer, and how many."""


class _Table(NamedTuple):
    """What a GPU can carry."""

    limit: Load
    sizes: Mapping[str, Size]
    """By profile."""


def vgpu_size(gpu: SharedGpu, name: str) -> Size | None:
    """What a vGPU of a profile takes on a GPU that supports it, in the mode that it is in."""
    return _table(gpu).sizes.get(name)


def capacity_of(gpu: SharedGpu) -> Load:
    """What an empty GPU takes in all."""
    return _table(gpu).limit


def current_load(gpu: SharedGpu) -> Load:
    """What the VMs that are on have of a GPU."""
    load = Load()
    for user in gpu.users:
        size = vgpu_size(gpu, user.profile) or _by_name(user.profile)
        if not size.mib:
            return load._replace(full=True)
        load = _in_shared_instance(load, size) or _sum(load, size)
    return load


def vgpus_left(gpu: SharedGpu, load: Load, name: str) -> int:
    """How many vGPUs of a profile a GPU takes in addition to its load."""
    size = vgpu_size(gpu, name)
    return 0 if size is None else max_vgpus(capacity_of(gpu), gpu.mode, load, size)


@lru_cache(maxsize=4096)
def max_vgpus(limit: Load, mode: str, load: Load, size: Size) -> int:
    """How many vGPUs of one size fit in addition to a load."""
    count = 0
    while (more := add_vgpu(limit, mode, load, size)) is not None:
        load, count = more, count + 1
    return count


def add_vgpu(limit: Load, mode: str, load: Load, size: Size) -> Load | None:
    """What a GPU carries with one more vGPU; None: it has no room."""
    if load.full or load.vgpus >= size.max_per_gpu:
        return None
    if load.places and (shared := _in_shared_instance(load, size)) is not None:
        return shared
    if load.mib + size.mib > limit.mib:
        return None
    if not size.mib:
        return None if load.vgpus else Load(limit.mib, 1, full=True)
    if load.vgpus and (load.slices > 0) != (size.slices > 0):
        return None
    if load.slices + size.slices > limit.slices or (load.media and size.media):
        return None
    mixes = size.slices or mode == MIXED_SIZE
    if not mixes and load.framebuffer not in (0, size.framebuffer):
        return None
    return _sum(load, size)


def other_size(gpu: SharedGpu, load: Load, name: str) -> int:
    """MiB of the vGPUs on a GPU that has memory for one of a profile, but not of that size.

    0: that is not what is in the way.
    """
    size = vgpu_size(gpu, name)
    if size is None or add_vgpu(capacity_of(gpu), gpu.mode, load, size) is not None:
        return 0
    alike = load._replace(framebuffer=size.framebuffer)
    fits = add_vgpu(capacity_of(gpu), gpu.mode, alike, size) is not None
    return load.framebuffer if fits else 0


def _in_shared_instance(load: Load, size: Size) -> Load | None:
    """With one more vGPU in a GPU instance that others have already; None: it needs its own."""
    for slices, framebuffer, free in load.places:
        if (slices, framebuffer) == (size.slices, size.framebuffer):
            return load._replace(
                vgpus=load.vgpus + 1,
                framebuffer=size.framebuffer,
                places=_places(load, size, free - 1),
            )
    return None


def _sum(load: Load, size: Size) -> Load:
    """With one more vGPU, and its GPU instance."""
    return Load(
        load.mib + size.mib,
        load.vgpus + 1,
        size.framebuffer,
        load.slices + size.slices,
        load.full,
        load.media or size.media,
        _places(load, size, size.shared_by - 1) if size.shared_by > 1 else load.places,
    )


def _places(load: Load, size: Size, free: int) -> tuple[tuple[int, int, int], ...]:
    others = [one for one in load.places if one[:2] != (size.slices, size.framebuffer)]
    return tuple(sorted([*others, *([(size.slices, size.framebuffer, free)] if free else [])]))


# ------------------------------------------------------------------------------- what is offered

_Key = tuple[Sequence[Profile], int, str]
_tables: dict[int, tuple[_Key, _Table]] = {}
_TABLES = 16384


def _table(gpu: SharedGpu) -> _Table:
    """Cached for as long as the list of profiles is the same object: to compare lists is slow."""
    key = (gpu.profiles, gpu.memory_gib, gpu.mode)
    known = _tables.get(id(gpu.profiles))
    if known is not None and known[0][0] is gpu.profiles and known[0][1:] == key[1:]:
        return known[1]
    if len(_tables) >= _TABLES:
        _tables.clear()
    # The list is kept with it, so no other gets its id.
    table = _made(gpu)
    _tables[id(gpu.profiles)] = key, table
    return table


def _made(gpu: SharedGpu) -> _Table:
    known = {one.name: named(one.name) for one in gpu.profiles}
    framebuffers = {one.name: _framebuffer(one) for one in gpu.profiles}
    mib = max([gpu.memory_gib * MIB_PER_GIB, *framebuffers.values()])
    instances = {
        one.name: _compute(known[one.name])
        for one in gpu.profiles
        if one.mig or _is_mig(known[one.name])
    }
    whole = [part for name, part in instances.items() if part > 1 and framebuffers[name] >= mib]
    slices = max(whole, default=7 * _SLICE)
    sizes: dict[str, Size] = {}
    for name, framebuffer in framebuffers.items():
        said = known[name]
        maximum = (said and said.maximum) or 0
        if name in instances:
            if gpu.mode in (SAME_SIZE, MIXED_SIZE):
                continue
            # Names round sizes.
            part = min(framebuffer, mib // maximum) if maximum > 1 else framebuffer
            shared_by = max(1, maximum // said.fraction) if said and said.fraction else 1
            sizes[name] = Size(
                part * shared_by,
                framebuffer,
                instances[name],
                shared_by,
                _has_media(said),
                _MOST_IN_INSTANCES,
            )
        elif gpu.mode == MIXED_SIZE:
            places = len(said.ids) if said else 0
            part = max(framebuffer, mib // places) if places else framebuffer
            sizes[name] = Size(part, framebuffer)
        elif gpu.mode != MULTI_INSTANCE:
            sizes[name] = Size(framebuffer, framebuffer, max_per_gpu=maximum or MOST_TIME_SLICED)
    return _Table(Load(mib, slices=slices), sizes)


def _is_mig(known: catalogue.Profile | None) -> bool:
    return known is not None and known.mig_backed


def _has_media(known: catalogue.Profile | None) -> bool:
    """Whether it needs the media engines, of which a GPU has enough for one vGPU."""
    return known is not None and known.variant == _MEDIA


def _compute(known: catalogue.Profile | None) -> int:
    """What a vGPU in an instance takes of compute; next to nothing where it is not known."""
    return known.slices * _SLICE if known is not None and known.mig_backed else 1


def _framebuffer(profile: Profile) -> int:
    mib = profile.memory_gib * MIB_PER_GIB
    known = named(profile.name)
    # A size below one GiB is reported as none or as one; names are exact.
    return known.framebuffer_mib if known and mib <= MIB_PER_GIB else mib


def _by_name(name: str) -> Size:
    """What a vGPU takes whose profile the GPU does not list."""
    known = named(name)
    if known is None:
        return Size(0, 0)
    framebuffer, slices = known.framebuffer_mib, known.slices * _SLICE
    return Size(framebuffer, framebuffer, slices, media=_has_media(known))
