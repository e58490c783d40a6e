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
    best = heapq.nsmallest(MOST, ((score, node) for node, score in costs.items()))
    if not best or all(score == best[0][0] for score in costs.values()):
        return {}
    found: dict[str, int] = {}
    weight, before = min(HEAVIEST, lightest - 1), best[0][0]
    for score, node in best:
        if score != before:
            weight, before = weight // 2, score
        if weight < 1:
            break
        found[node] = weight
    return found
