"""What the name of a vGPU profile says, and what the catalogue adds to it.

The name is the desired state of a user and the only thing about a profile that every driver release
agrees on, so it is read even where the catalogue has never heard of the board: size, series, and
for a MIG-backed profile the GPU instance that it needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from laneway.core.vgpu.catalogue import VgpuProfile, profile_named, profiles_of

MIB_PER_GIB = 1024
HALF_GIB_MIB = 512
"""What the size `0` in a name stands for."""

_SHORT_NAME = re.compile(
    r"(?P<board>\S+?)(?:-(?P<slices>[1-9]))?-(?P<gib>[0-9]{1,4})(?P<series>[ABCQ])4?"
    r"(?P<variant>ME|NOME|MEALL|GFX)?"
)
_LONGEST = 128


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """One vGPU profile."""

    name: str
    board: str
    """As in the name, `A40`, without what stands before the last blank."""
    slices: int
    """Compute slices of its GPU instance; 0 for a time-sliced profile."""
    framebuffer_mib: int
    series: str
    """A: applications, B: PC, C: compute, Q: workstation."""
    variant: str = ""
    """`ME`, `NOME`, `MEALL`, `GFX`: what the GPU instance has or lacks besides memory."""
    maximum: int | None = None
    """Per card: in same-size mode, or over all GPU instances. None: not known."""
    ids: tuple[int, ...] = ()
    """Where it can be placed in mixed-size mode, as the catalogue says."""
    graphics: bool = False
    """Its GPU instance needs graphics."""
    fraction: int = 0
    """Its GPU instance takes one part in so many of the card's memory; 0: not known."""

    @property
    def mig_backed(self) -> bool:
        return self.slices > 0


@lru_cache(maxsize=512)
def profile(name: str) -> Profile | None:
    """What is known about a profile; None for text that is no profile's name."""
    return _read(name, profile_named(name)) if len(name) <= _LONGEST else None


def framebuffer_mib(name: str) -> int:
    """The framebuffer of a profile; 0: not known."""
    known = profile(name)
    return known.framebuffer_mib if known else 0


def by_sharing(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Time-sliced profiles and MIG-backed ones, each sorted; what is no profile is in neither."""
    known = [one for one in map(profile, sorted(names)) if one is not None]
    sliced = tuple(one.name for one in known if not one.mig_backed)
    return sliced, tuple(one.name for one in known if one.mig_backed)


@lru_cache(maxsize=32)
def profiles_on(device: str, subsystem: str = "") -> tuple[Profile, ...]:
    """The profiles of a board, or of all that share the id, as the catalogue has them."""
    rows = profiles_of(device, subsystem)
    return tuple(one for one in (_read(row.name, row) for row in rows) if one is not None)


def _read(name: str, known: VgpuProfile | None) -> Profile | None:
    match = _SHORT_NAME.fullmatch(name.rpartition(" ")[2])
    if match is None:
        return None
    gib, series, slices = int(match["gib"]), match["series"], int(match["slices"] or 0)
    said = Profile(
        name=name,
        board=match["board"],
        slices=slices,
        framebuffer_mib=gib * MIB_PER_GIB or HALF_GIB_MIB,
        series=series,
        variant=match["variant"] or "",
        graphics=slices > 0 and (series != "C" or match["variant"] == "GFX"),
    )
    if known is None:
        return said
    return msgspec.structs.replace(
        said,
        slices=slices if known.mig_backed else 0,
        framebuffer_mib=known.framebuffer_mib,
        maximum=known.max_per_gpu,
        ids=known.placement_ids,
        graphics="GFX_SIZE" in known.mig_partition,
        fraction=_fraction(known.mig_partition),
    )


_FRACTIONS = {"FULL": 1, "HALF": 2, "QUARTER": 4, "EIGHTHED": 8}


def _fraction(partition: str) -> int:
    """Of the driver's flags for a GPU instance, `ONE_MINI_QUARTER_GPU|GFX_SIZE=…`, the size."""
    words = partition.partition("|")[0].split("_")
    return next((_FRACTIONS[word] for word in words if word in _FRACTIONS), 0)
