"""A node's device plugin and its making of vGPUs serve as much as the policy that they follow."""

from __future__ import annotations

import pytest

from laneway.core.packing.churn import Mix, by_policy, churn
from laneway.core.packing.policy import aware
from support.packed_nodes import BOARD, Node


def test_a_node_serves_as_much_as_the_policy_within_a_hundredth() -> None:
    mix = Mix(tuple(float(kind.slots in (4, 8, 12, 24)) for kind in BOARD.kinds), gpus=4)
    policy = by_policy(BOARD, aware, lowest=True)
    planned, served = (
        [
            churn(BOARD, mix, take, seed=seed, arrivals=1500).memory
            for seed, take in enumerate(takers)
        ]
        for takers in ([policy] * 4, [Node(mix.gpus).take for _ in range(4)])
    )
    assert sum(served) / 4 == pytest.approx(sum(planned) / 4, abs=0.01)
    # A device plugin that does not look at places serves 0.011 less than planned.
