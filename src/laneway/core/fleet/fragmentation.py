"""How much of what is free can be used as one vGPU, and how much of it by vGPUs of each profile.

The measure is defined by what can be made now, in the mode that a GPU is in, with the vGPUs that it
carries; memory of a vGPU that no VM has is not free, for it is that vGPU's. It never compares
with a better arrangement: `core.fleet.moves` finds those.

- Of a GPU: 1 - the largest vGPU that can still be made / the memory without a vGPU.
- Of several GPUs, as those of a node: the same with the sums over them, for no vGPU spans two.
- Of a profile on several GPUs: 1 - the memory of all vGPUs of this profile that can still be made /
  the memory without a vGPU on the GPUs that have the profile.

0: all that is free can be used. 1: none of it. None: nothing is free, or the memory is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from laneway.core.vgpu.profiles import framebuffer_mib


class Free(msgspec.Struct, frozen=True):
    """What is free on one GPU."""

    mib: int
    """Memory without a vGPU."""
    fits: Mapping[str, int]
    """How many more vGPUs of each profile can be made, each counted for itself."""

    @property
    def largest(self) -> str:
        """The profile of the largest vGPU that can still be made; empty: none can."""
        possible = (name for name, count in self.fits.items() if count)
        return min(possible, key=lambda name: (-framebuffer_mib(name), name), default="")

    @property
    def largest_mib(self) -> int:
        """Its memory, 0 where none can be made; never more than what is free."""
        return min(self.mib, framebuffer_mib(self.largest)) if self.largest else 0


def score(parts: Iterable[Free]) -> float | None:
    """The fragmentation of one GPU or of several."""
    there = list(parts)
    return _lost(sum(one.largest_mib for one in there), sum(one.mib for one in there))


def by_profile(parts: Iterable[Free]) -> dict[str, float]:
    """The fragmentation for each profile over the GPUs that have it, where anything is free."""
    usable: dict[str, int] = {}
    free: dict[str, int] = {}
    for one in parts:
        for name, count in one.fits.items():
            able = min(one.mib, count * framebuffer_mib(name))
            usable[name] = usable.get(name, 0) + able
            free[name] = free.get(name, 0) + one.mib
    scores = {name: _lost(usable[name], free[name]) for name in sorted(free)}
    return {name: lost for name, lost in scores.items() if lost is not None}


def _lost(usable: int, free: int) -> float | None:
    return round(1 - usable / free, 4) if free > 0 else None
