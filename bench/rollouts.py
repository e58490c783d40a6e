"""How long the manager takes to decide which nodes may reboot, in a large cluster.

Every node has a HostPreparation, and one policy selects all. Most nodes wait: that is the worst
case, because each change of one node may give its place to any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from support.report import arguments, header, middle, percentile, table

from laneway.api import (
    Condition,
    CoreNode,
    HostPolicy,
    HostPolicySpec,
    HostPreparation,
    HostPreparationSpec,
    HostPreparationStatus,
    HostReboot,
    HostRollout,
    ObjectMeta,
)
from laneway.api.nodes import CoreNodeStatus
from laneway.controllers.preparation.settings import digest
from laneway.controllers.rollout.asked import merged, selecting
from laneway.controllers.rollout.observing import (
    Standing,
    node_of,
    rollout_of,
    standing_of,
    terms_of,
)
from laneway.core.rollout.node import next_step

SPEC = HostPreparationSpec(iommu=True, policies=["gpus"])
STATUS = HostPreparationStatus(stage="Staged", boot_id="b1", settings=digest(SPEC))
READY = CoreNodeStatus(conditions=[Condition(type="Ready", status="True")])


def times(work: Callable[[], Any], count: int) -> list[float]:
    found = []
    for _ in range(count):
        began = time.perf_counter()
        work()
        found.append((time.perf_counter() - began) * 1000)
    return found


def decide(
    policy: HostPolicy, node: CoreNode, preparation: HostPreparation, standing: Standing
) -> None:
    merged(selecting([policy], node))
    terms = [terms_of(policy, node.metadata.name, standing, 0.0)]
    next_step(node_of(node, preparation, ()), rollout_of(preparation.spec.rollout), terms, 0.0)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    options = parser.parse_args()
    names = [f"node-{number:04d}" for number in range(options.nodes)]
    nodes = [CoreNode(metadata=ObjectMeta(name=name), status=READY) for name in names]
    preparations = {
        name: HostPreparation(metadata=ObjectMeta(name=name), spec=SPEC, status=STATUS)
        for name in names
    }
    rollout = HostRollout(max_unavailable="5%", reboot=HostReboot(when="WhenFree"))
    policy = HostPolicy(
        metadata=ObjectMeta(name="gpus"), spec=HostPolicySpec(iommu=True, rollout=rollout)
    )
    standing = standing_of(policy, nodes, preparations)

    def every() -> None:
        fresh = standing_of(policy, nodes, preparations)
        for node in nodes:
            decide(policy, node, preparations[node.metadata.name], fresh)

    measured = {
        "how the nodes of a policy are": times(
            lambda: standing_of(policy, nodes, preparations), 20
        ),
        "one node that waits": times(
            lambda: decide(policy, nodes[0], preparations[names[0]], standing), 1000
        ),
        "all nodes, after one has changed": times(every, 10),
    }
    header()
    rows = [
        (what, f"{middle(found):.3f}", f"{percentile(found, 95):.3f}")
        for what, found in measured.items()
    ]
    table(f"{options.nodes} nodes", ("decision, in ms", "p50", "p95"), rows)


if __name__ == "__main__":
    main()
