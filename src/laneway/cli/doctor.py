"""`laneway doctor`: what is wrong with this machine or with the cluster, and what to do about it.

It changes nothing. The checks are pure functions over facts, so that a simulated or recorded host
is examined like a real one.
"""

from __future__ import annotations

import asyncio
import os

from laneway.cli import findings
from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.source import opened


def examine_node(
    simulate: str | None,
    output: str | None,
    kubelet_dir: str | None,
    state_dir: str | None,
    node_root: str,
) -> int:
    """Examine this host; gives the exit status. Raises Failure."""
    # Examining is slow to import, and `doctor cluster` does without it.
    from laneway.core.doctor.node import judge  # noqa: PLC0415 - slow to import
    from laneway.host.examine import KUBELET, examine  # noqa: PLC0415 - slow to import

    if not os.path.isdir(node_root):
        raise Failure(f"--node-root: the folder {node_root[:80]!r} does not exist")
    host, executor, state = opened(simulate, state_dir, node_root)
    facts = asyncio.run(examine(host, executor, state, kubelet=kubelet_dir or KUBELET))
    about = "this host" if simulate is None else f"simulated {simulate}"
    return findings.report(judge(facts), output, about)


def try_containers(
    node: str, image: str, seconds: float, output: str | None, where: ClusterChoice
) -> int:
    """Run the vendor's sample on a node; gives the exit status. Raises Failure."""
    from laneway.changes import vector_add  # noqa: PLC0415 - slow to import
    from laneway.cli.connection import ask, namespace_of  # noqa: PLC0415 - slow to import
    from laneway.cli.progress import Printer  # noqa: PLC0415 - slow to import
    from laneway.core.doctor.vector_add import judge  # noqa: PLC0415 - slow to import

    wanted = vector_add.Wanted(node, namespace_of(where), image, seconds)
    printer = Printer(quiet=output is not None)
    ran = ask(
        lambda client: vector_add.run(client, wanted, printer),
        where,
        interrupted=". The pod of the sample is removed.",
    )
    return findings.report([judge(node, ran)], output, f"node {node}")


def examine_cluster(output: str | None, where: ClusterChoice) -> int:
    """Examine the cluster; gives the exit status. Raises Failure."""
    # The client is slow to import, and a node needs none.
    from laneway.cli.connection import ask  # noqa: PLC0415 - slow to import
    from laneway.controllers.doctor.facts import look  # noqa: PLC0415 - slow to import
    from laneway.core.doctor.cluster import judge  # noqa: PLC0415 - slow to import

    return findings.report(judge(ask(look, where)), output, "the cluster")
