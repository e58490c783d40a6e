"""Which of a GPU's free vGPUs stay where it needs fewer than it has: those that leave most room.

What is in use stays anyway. Of the free ones of a profile, the large profiles first, those stay
that would cost the least if they were made there now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from laneway.core.packing import gpus
from laneway.core.vgpu.placement import Carried
from laneway.core.vgpu.profiles import framebuffer_mib


def staying(
    gpu: gpus.Gpu, held: Iterable[Carried], free: Sequence[Carried], wanted: Mapping[str, int]
) -> frozenset[int]:
    """By index. `wanted`: how many of each profile, in addition to those that are in use."""
    there, stay = [*held], set[int]()
    if not gpu.mixed:
        # The place makes no difference: those that come first stay.
        free = [Carried(one.profile) for one in free]
    for name in sorted(wanted, key=lambda name: (-framebuffer_mib(name), name)):
        mine = [index for index, one in enumerate(free) if one.profile == name]
        best, _ = gpus.best(gpu, there, [free[index] for index in mine], wanted[name])
        stay.update(mine[at] for at in best)
        there += [free[mine[at]] for at in best]
    return frozenset(stay)
