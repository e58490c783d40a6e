"""Which nodes a scheduler is to prefer for a pod, and by how much.

A few of the best nodes get weights. The best get the most, and each worse group half of that of the
group before it, so that other scores of the scheduler seldom turn the order around; nodes that cost
the same get the same. What a pod prefers by itself comes first: no weight reaches its lightest one.
Where all nodes cost the same, or there is one only, there is nothing to prefer.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from laneway.core.packing.policy import Score

MOST = 10
"""So many nodes are preferred at the most: a pod is written and read many times."""
HEAVIEST = 100
"""Of the API."""


def weights(costs: Mapping[str, Score], lightest: int = HEAVIEST + 1) -> dict[str, int]:
    """By node, the best first. `costs`: by node; `lightest`: of what the pod itself prefers."""
    groups: dict[Score, list[str]] = {}
    for node, score in costs.items():
        groups.setdefault(score, []).append(node)
    found: dict[str, int] = {}
    weight = min(HEAVIEST, lightest - 1)
    for score in sorted(groups) if len(groups) > 1 else ():
        if weight < 1 or len(found) == MOST:
            break
        found |= dict.fromkeys(heapq.nsmallest(MOST - len(found), groups[score]), weight)
        weight //= 2
    return found
