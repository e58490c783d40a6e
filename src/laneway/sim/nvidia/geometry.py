"""Where GPU instances fit on a chip in MIG mode.

A chip is a row of memory units. A profile takes some of them, from one of a few fixed starts, and
some of the media engines, of which the profile of the whole chip has all. Requested no particular
start, the driver takes the one that spoils the fewest other placements, then the lowest; this rule
gives the instance ids of every listing that we have seen. Ids number the halves, quarters and
eighths of a chip: 0 is the whole, 1 and 2 the halves, 3 to 6 the quarters.

Tables: `nvidia-smi mig -lgip` and `-lgipp` as printed in NVIDIA's Multi-Instance GPU User Guide
(docs.nvidia.com/datacenter/tesla/mig-user-guide, "Supported MIG Profiles" and "Getting Started
with MIG") and, for ids, placements and engines that the guide does not print, in public listings
from cards with drivers 535 to 580.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

Placement = tuple["Profile", int]
"""A GPU instance: what it is and where it begins."""


class Engines(msgspec.Struct, frozen=True):
    """Media engines, of a profile or of a whole chip."""

    dec: int
    enc: int
    jpeg: int
    ofa: int


class Profile(msgspec.Struct, frozen=True):
    """A kind of GPU instance."""

    name: str
    id: int
    total: int
    starts: tuple[int, ...]
    size: int
    """Memory units that it takes."""
    memory: str
    """GiB that are usable, as printed."""
    processors: int
    copy_engines: int
    engines: Engines
    flags: str
    """As in the catalogue: what a vGPU type must request to land here. Empty: no type does."""

    @property
    def slices(self) -> int:
        return int(self.name.partition("g")[0])


class Geometry(msgspec.Struct, frozen=True):
    """The GPU instances of one chip."""

    units: int
    time_slicing: bool
    """Whether several vGPUs share one GPU instance."""
    profiles: tuple[Profile, ...]

    def profile(self, text: str) -> Profile | None:
        """The profile that a person names: by id, `1g.5gb` or `MIG 1g.5gb`."""
        name = text.strip().removeprefix("MIG ")
        known = (one for one in self.profiles if name in (one.name, str(one.id)))
        return next(known, None)

    def free_starts(self, profile: Profile, existing: Iterable[Placement]) -> tuple[int, ...]:
        """Where an instance of the profile could begin now."""
        existing = tuple(existing)
        if sum(one.id == profile.id for one, _ in existing) >= profile.total:
            return ()
        if not self._engines_suffice((*(one for one, _ in existing), profile)):
            return ()
        taken = _units(existing)
        return tuple(s for s in profile.starts if not taken & _units([(profile, s)]))

    def choose(self, profile: Profile, existing: Iterable[Placement]) -> int | None:
        """Where the driver puts an instance when no placement is given."""
        existing = tuple(existing)
        taken = _units(existing)
        possible = [
            units
            for other in self.profiles
            for start in other.starts
            if not (units := _units([(other, start)])) & taken
        ]

        def spoils(start: int) -> tuple[int, int]:
            mine = _units([(profile, start)])
            return sum(bool(mine & units) for units in possible), start

        return min(self.free_starts(profile, existing), key=spoils, default=None)

    def count_free(self, profile: Profile, existing: Iterable[Placement]) -> int:
        """How many more instances of the profile fit."""
        laid = list(existing)
        before = len(laid)
        while (start := self.choose(profile, laid)) is not None:
            laid.append((profile, start))
        return len(laid) - before

    def instance_id(self, profile: Profile, start: int) -> int:
        return self.units // profile.size - 1 + start // profile.size

    def _engines_suffice(self, profiles: Iterable[Profile]) -> bool:
        every = [one.engines for one in profiles]
        chip = max((one for one in self.profiles), key=lambda one: one.size).engines
        return all(
            sum(getattr(one, name) for one in every) <= getattr(chip, name)
            for name in chip.__struct_fields__
        )


def _units(placements: Iterable[Placement]) -> int:
    """The memory units of instances, as a mask."""
    return sum(((1 << profile.size) - 1) << start for profile, start in placements)


_MEDIA = "|REQ_DEC_JPG_OFA=ENABLE"
_SEVEN, _EVEN, _PAIRS = tuple(range(7)), (0, 2, 4, 6), (0, 2, 4)
_QUARTERS, _HALVES = (0, 3, 6, 9), (0, 6)
_ALL = (0,)


def _a100() -> Geometry:
    eighth, half = "ONE_EIGHTHED_GPU", "ONE_MINI_HALF_GPU"
    none, dec, two = Engines(0, 0, 0, 0), Engines(1, 0, 0, 0), Engines(2, 0, 0, 0)
    me, every = Engines(1, 0, 1, 1), Engines(5, 0, 1, 1)
    profiles = (
        Profile("1g.5gb", 19, 7, _SEVEN, 1, "4.75", 14, 1, none, eighth),
        Profile("1g.5gb+me", 20, 1, _SEVEN, 1, "4.75", 14, 1, me, eighth + _MEDIA),
        Profile("1g.10gb", 15, 4, _EVEN, 2, "9.62", 14, 1, dec, "ONE_MINI_QUARTER_GPU"),
        Profile("2g.10gb", 14, 3, _PAIRS, 2, "9.62", 28, 2, dec, "ONE_QUARTER_GPU"),
        Profile("3g.20gb", 9, 2, (0, 4), 4, "19.50", 42, 3, two, half),
        Profile("4g.20gb", 5, 1, _ALL, 4, "19.50", 56, 4, two, "ONE_HALF_GPU"),
        Profile("7g.40gb", 0, 1, _ALL, 8, "39.25", 98, 7, every, "FULL_GPU"),
    )
    return Geometry(8, time_slicing=False, profiles=profiles)


def _h100() -> Geometry:
    eighth, half = "ONE_EIGHTHED_GPU", "ONE_MINI_HALF_GPU"
    one, two, three, four = (Engines(n, 0, n, 0) for n in range(1, 5))
    me, every = Engines(1, 0, 1, 1), Engines(7, 0, 7, 1)
    profiles = (
        Profile("1g.10gb", 19, 7, _SEVEN, 1, "9.75", 16, 1, one, eighth),
        Profile("1g.10gb+me", 20, 1, _SEVEN, 1, "9.75", 16, 1, me, eighth + _MEDIA),
        Profile("1g.20gb", 15, 4, _EVEN, 2, "19.62", 26, 1, one, "ONE_MINI_QUARTER_GPU"),
        Profile("2g.20gb", 14, 3, _PAIRS, 2, "19.62", 32, 2, two, "ONE_QUARTER_GPU"),
        Profile("3g.40gb", 9, 2, (0, 4), 4, "39.50", 60, 3, three, half),
        Profile("4g.40gb", 5, 1, _ALL, 4, "39.50", 64, 4, four, "ONE_HALF_GPU"),
        Profile("7g.80gb", 0, 1, _ALL, 8, "79.25", 132, 8, every, "FULL_GPU"),
    )
    return Geometry(8, time_slicing=False, profiles=profiles)


def _a30() -> Geometry:
    quarter, half = "ONE_QUARTER_GPU", "ONE_HALF_GPU"
    one, two = Engines(1, 0, 0, 0), Engines(2, 0, 0, 0)
    me, two_me, every = Engines(1, 0, 1, 1), Engines(2, 0, 1, 1), Engines(4, 0, 1, 1)
    profiles = (
        Profile("1g.6gb", 14, 4, (0, 1, 2, 3), 1, "5.81", 14, 1, one, quarter),
        Profile("1g.6gb+me", 21, 1, (0, 1, 2, 3), 1, "5.81", 14, 1, me, quarter + _MEDIA),
        Profile("2g.12gb", 5, 2, (0, 2), 2, "11.69", 28, 2, two, half),
        Profile("2g.12gb+me", 6, 1, (0, 2), 2, "11.69", 28, 2, two_me, half + _MEDIA),
        Profile("4g.24gb", 0, 1, _ALL, 4, "23.44", 56, 4, every, "FULL_GPU"),
    )
    return Geometry(4, time_slicing=False, profiles=profiles)


def _rtx_pro_6000() -> Geometry:
    quarter, half, full = (
        f"{part}_GPU|GFX_SIZE={size}"
        for part, size in (("ONE_QUARTER", "QUARTER"), ("ONE_HALF", "HALF"), ("FULL", "FULL"))
    )
    none, one, two = (Engines(n, n, n, 0) for n in range(3))
    me, every = Engines(1, 1, 1, 1), Engines(4, 4, 4, 1)
    profiles = (
        Profile("1g.24gb", 14, 4, _QUARTERS, 3, "23.62", 46, 1, one, ""),
        Profile("1g.24gb+me", 21, 1, _QUARTERS, 3, "23.62", 46, 1, me, ""),
        Profile("1g.24gb+gfx", 47, 4, _QUARTERS, 3, "23.62", 46, 1, one, quarter),
        Profile("1g.24gb+me.all", 65, 1, _QUARTERS, 3, "23.62", 46, 1, every, ""),
        Profile("1g.24gb-me", 67, 4, _QUARTERS, 3, "23.62", 46, 1, none, ""),
        Profile("2g.48gb", 5, 2, _HALVES, 6, "47.38", 94, 2, two, ""),
        Profile("2g.48gb+gfx", 35, 2, _HALVES, 6, "47.38", 94, 2, two, half),
        Profile("2g.48gb+me.all", 64, 1, _HALVES, 6, "47.38", 94, 2, every, ""),
        Profile("2g.48gb-me", 66, 2, _HALVES, 6, "47.38", 94, 2, none, ""),
        Profile("4g.96gb", 0, 1, _ALL, 12, "95.12", 188, 4, every, ""),
        Profile("4g.96gb+gfx", 32, 1, _ALL, 12, "95.12", 188, 4, every, full),
    )
    return Geometry(12, time_slicing=True, profiles=profiles)


_H100 = _h100()

GEOMETRIES: Mapping[str, Geometry] = {
    "20f1": _a100(),
    "20b7": _a30(),
    "2330": _H100,
    "2331": _H100,
    "2336": _H100,
    "2bb5": _rtx_pro_6000(),
}
"""By PCI device id; boards that are not here cannot MIG on a simulated host."""
