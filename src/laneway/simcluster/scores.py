"""How good a node is for a pod that fits on it: the scores of kube-scheduler's defaults.

Of its plugins, those that tell nodes of this cluster apart: NodeAffinity (weight 2), which is made
such that the best node has 100, and NodeResourcesFit (least allocated) and
NodeResourcesBalancedAllocation (weight 1 each), which spread. All in whole numbers, as there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from laneway.core.machine_pools import affinity
from laneway.simcluster.objects import Node, PlacedPod, amounts, requested

_MOST = 100
_AFFINITY_WEIGHT = 2
_MEASURED = ("cpu", "memory")


def scores(
    pod: PlacedPod, nodes: Sequence[Node], taken: Mapping[str, Mapping[str, int]]
) -> dict[str, int]:
    """By the name of the node; the highest is best."""
    preferred = _preferred(pod, nodes)
    return {
        node.metadata.name: _AFFINITY_WEIGHT * preferred[node.metadata.name]
        + _spread(pod, node, taken.get(node.metadata.name, {}))
        for node in nodes
    }


def _preferred(pod: PlacedPod, nodes: Sequence[Node]) -> dict[str, int]:
    labels = {node.metadata.name: node.metadata.labels for node in nodes}
    found = dict.fromkeys(labels, 0)
    terms = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    for term in terms:
        for name in affinity.nodes([term.preference], labels):
            found[name] += term.weight
    most = max(found.values(), default=0)
    return {name: _MOST * weight // most if most else 0 for name, weight in found.items()}


def _spread(pod: PlacedPod, node: Node, used: Mapping[str, int]) -> int:
    there, wanted = amounts(node.status.allocatable), requested(pod)
    shares = [
        min(1.0, (used.get(name, 0) + wanted[name]) / there[name])
        for name in _MEASURED
        if there[name] > 0
    ]
    if not shares:
        return 0
    least = sum(int((1 - share) * _MOST) for share in shares) // len(shares)
    mean = sum(shares) / len(shares)
    deviation = (sum((share - mean) ** 2 for share in shares) / len(shares)) ** 0.5
    return least + int((1 - deviation) * _MOST)
