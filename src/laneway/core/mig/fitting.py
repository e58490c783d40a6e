"""Whether GPU instances can be on one card together, where only the names of profiles are known.

The API tells the profiles of a card and how many of each it takes, not where they can begin. So
every place counts as possible here: what does not fit in spite of that fits nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from laneway.core.gpu.modes import GpuInstanceProfile
from laneway.core.mig.instances import Obstacle, arrange_instances
from laneway.core.mig.profiles import memory_gib

_MOST_SLICES = 64
"""No card is divided into more; what an object says beyond that describes none."""


def misfit(totals: Mapping[str, int], wanted: Mapping[str, int]) -> str:
    """Why these do not fit, as the rest of a sentence; empty: nothing speaks against it.

    `totals`: how many of each profile an empty card takes, by the driver's name of it.
    """
    memory = {name: gib for name in totals if (gib := memory_gib(name))}
    if not memory or any(name not in memory for name in wanted):
        return ""
    # The smallest profile has one slice. Sizes in names are rounded, and so are these. The card is
    # as large as all instances of one profile together: none has to take all of it.
    unit = min(memory.values())
    whole = max(gib * max(1, totals[name]) for name, gib in memory.items())
    slices = max(1, round(whole / unit))
    if slices > _MOST_SLICES:
        return ""
    offered = []
    for name, gib in memory.items():
        size = min(slices, max(1, round(gib / unit)))
        starts = tuple(range(slices - size + 1))
        offered.append(GpuInstanceProfile(name, -1, totals[name], starts, size))
    found = arrange_instances(offered, (), wanted)
    return found.text if isinstance(found, Obstacle) else ""
