"""`laneway doctor`: what is wrong with this machine or with the cluster, and what to do about it.

It changes nothing. The checks are pure functions over facts, so that a simulated or recorded host
is examined like a real one.
"""

from __future__ import annotations

import asyncio
import os

import click

from laneway.cli import findings
from laneway.cli.connection import kubeconfig_option
from laneway.cli.errors import Failure
from laneway.cli.output import output_option
from laneway.cli.source import opened, simulate_option

_OUTPUT = output_option("Text to read, or JSON.")


@click.group(
    epilog="""\b
Examples:
    sudo laneway doctor node
    laneway doctor node --simulate a2
    laneway doctor cluster
    laneway doctor cluster -o json | jq '.findings[] | select(.level == "problem")'

\b
Exit status: 0 no problem, 3 there is a problem, 1 nothing could be found out.
"""
)
def doctor() -> None:
    """Find what is wrong with this host or with the cluster, why it matters, and what to do.

    A finding is ok, advice (look at it), or a problem (something does not work).
    """


@doctor.command(
    epilog="""\b
Exit status: 0 no problem, 3 there is a problem.
"""
)
@simulate_option
@_OUTPUT
@click.option(
    "--kubelet-dir",
    envvar="LANEWAY_KUBELET_DIR",
    show_envvar=True,
    metavar="DIR",
    help="The folder of the node's kubelet. Default: /var/lib/kubelet.",
)
@click.option(
    "--state-dir",
    envvar="LANEWAY_STATE_DIR",
    show_envvar=True,
    metavar="DIR",
    help="The folder in which the node's agent keeps its notes. Default: /var/lib/laneway.",
)
@click.option(
    "--node-root",
    envvar="LANEWAY_NODE_ROOT",
    show_envvar=True,
    default="/",
    show_default=True,
    metavar="DIR",
    help="Where the node's own file system is, with the driver's programs.",
)
def node(
    simulate: str | None,
    output: str,
    kubelet_dir: str | None,
    state_dir: str | None,
    node_root: str,
) -> int:
    """Examine this host: IOMMU, firmware, drivers, groups, kubelet, what competes.

    Nothing is changed. Without root some things cannot be read; which is said. The pod of an agent
    has the variables, so that what is examined there is what its agent sees.
    """
    # Examining is slow to import, and `doctor cluster` does without it.
    from laneway.core.doctor.node import judge  # noqa: PLC0415 - slow to import
    from laneway.host.examine import KUBELET, examine  # noqa: PLC0415 - slow to import

    if not os.path.isdir(node_root):
        raise Failure(f"--node-root: there is no folder {node_root[:80]!r}")
    host, executor, state = opened(simulate, state_dir, node_root)
    facts = asyncio.run(examine(host, executor, state, kubelet=kubelet_dir or KUBELET))
    about = "this host" if simulate is None else f"simulated {simulate}"
    return findings.told(judge(facts), output, about)


@doctor.command(
    epilog="""\b
Exit status: 0 no problem, 3 there is a problem, 1 the cluster could not be asked.
"""
)
@_OUTPUT
@kubeconfig_option
def cluster(output: str, kubeconfig: str | None) -> int:
    """Examine the cluster: definitions, Laneway's parts, KubeVirt, nodes, Harvester's controller.

    Nothing is changed. What you may not read is said.
    """
    # The client is slow to import, and a node needs none.
    from laneway.cli.connection import ask  # noqa: PLC0415 - slow to import
    from laneway.controllers.doctor.facts import look  # noqa: PLC0415 - slow to import
    from laneway.core.doctor.cluster import judge  # noqa: PLC0415 - slow to import

    return findings.told(judge(ask(look, kubeconfig)), output, "the cluster")
