"""Which GPU instance a MIG-backed vGPU profile needs, and how many vGPUs one takes.

What instance profiles there are is read from the driver while MIG mode is on. Before it is on, the
catalogue's flags of the vGPU profiles stand in for that, so that a desired state which can never
fit is refused before anything is torn down for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from laneway.core.gpu.modes import GpuInstanceProfile
from laneway.core.vgpu.profiles import MIB_PER_GIB, Profile, profile, profiles_on

MOST_PER_INSTANCE = 12
"""vGPUs in one GPU instance, whatever their size."""

_MEMORY_SLICES = 8
_PREFIX = "MIG "
_NAME = re.compile(r"([1-9])g\.([0-9]{1,4})gb([+-][a-z0-9.+-]{1,24})?")
_ATTRIBUTES = {"": "", "ME": "+me", "NOME": "-me", "MEALL": "+me.all", "GFX": "+gfx"}


def display_name(profile: str) -> str:
    """A profile as the API names it, `MIG 1g.5gb`."""
    return f"{_PREFIX}{profile}"


def bare_name(text: str) -> str:
    """A profile as the driver names it, `1g.5gb`, whichever of both was written."""
    return text.strip().removeprefix(_PREFIX).strip()


def instance_profile(
    vgpu: Profile, offered: Iterable[GpuInstanceProfile]
) -> GpuInstanceProfile | None:
    """The GPU instance that a MIG-backed profile needs: the smallest that has what its name says.

    `A100-1-10C` needs a `1g.10gb`, `A100-1-5CME` a `1g.5gb+me`. Graphics share an instance's memory
    between several: `DC-1-2Q` and eleven others sit in one `1g.24gb+gfx`.
    """
    choices = tuple(offered)
    for attributes in _attributes(vgpu):
        found = [
            (gib, one)
            for one, (slices, gib, has) in ((one, _parts(one.name)) for one in choices)
            if slices == vgpu.slices and has == attributes
            if gib * MIB_PER_GIB >= vgpu.framebuffer_mib
        ]
        if found:
            return min(found, key=lambda pair: pair[0])[1]
    return None


def serving(
    name: str, offered: Iterable[GpuInstanceProfile]
) -> tuple[Profile, GpuInstanceProfile] | None:
    """A MIG-backed profile and the GPU instance that it needs; None where the card has neither."""
    vgpu = profile(name)
    instance = instance_profile(vgpu, offered) if vgpu else None
    return (vgpu, instance) if vgpu and instance else None


def _attributes(vgpu: Profile) -> tuple[str, ...]:
    if vgpu.graphics:
        return ("+gfx",)
    named = _ATTRIBUTES[vgpu.variant]
    # A compute profile of a board that the catalogue lacks may sit in either kind.
    return (named,) if named or vgpu.fraction else (named, "+gfx")


def _parts(name: str) -> tuple[int, int, str]:
    """Compute slices, GiB and attributes of an instance profile; zeros for an odd name."""
    match = _NAME.fullmatch(name)
    return (int(match[1]), int(match[2]), match[3] or "") if match else (0, 0, "")


def per_instance(vgpu: Profile, instance: GpuInstanceProfile) -> int:
    """How many vGPUs of a profile one GPU instance takes."""
    if vgpu.maximum and instance.total:
        return max(1, min(MOST_PER_INSTANCE, vgpu.maximum // instance.total))
    if not vgpu.graphics:
        return 1
    gib = _parts(instance.name)[1]
    return max(1, min(MOST_PER_INSTANCE, gib * MIB_PER_GIB // vgpu.framebuffer_mib))


def compute_slices(name: str) -> int:
    """Compute slices of an instance profile, by its name."""
    return _parts(name)[0]


def memory_gib(name: str) -> int:
    """Memory of an instance profile, by its name; 0 for an odd one."""
    return _parts(name)[1]


# ------------------------------------------------------------------------------ before MIG is on


@lru_cache(maxsize=32)
def expected_profiles(device: str) -> tuple[GpuInstanceProfile, ...]:
    """The instance profiles of a board by PCI device id, as far as its vGPU profiles show them.

    For judging a desired state only: they have no ids that the driver would take. Empty for a board
    that the catalogue lacks.
    """
    vgpus = [one for one in profiles_on(device) if one.mig_backed and one.fraction]
    alike: dict[tuple[int, int], int] = {}
    for vgpu in vgpus:
        total = vgpu.fraction if vgpu.graphics else vgpu.maximum or 1
        alike[_kind(vgpu)] = max(alike.get(_kind(vgpu), 0), total)
    full = max((vgpu.framebuffer_mib for vgpu in vgpus), default=0) // MIB_PER_GIB
    found: dict[str, GpuInstanceProfile] = {}
    for vgpu in vgpus:
        total = alike[_kind(vgpu)]
        size = _MEMORY_SLICES // vgpu.fraction
        gib = full // vgpu.fraction if vgpu.graphics else vgpu.framebuffer_mib // MIB_PER_GIB
        name = f"{vgpu.slices}g.{gib}gb{_attributes(vgpu)[0]}"
        # Of those with media engines there are fewer than there are places.
        most = vgpu.maximum or 1 if vgpu.variant else total
        found[name] = GpuInstanceProfile(
            name=name,
            id=-1,
            total=most,
            starts=tuple(size * index for index in range(total)),
            size=size,
        )
    return tuple(found.values())


def _kind(vgpu: Profile) -> tuple[int, int]:
    """Profiles with the same compute slices and memory differ only in their engines."""
    return vgpu.slices, vgpu.fraction
