"""`laneway agent`: the agent of one node of a cluster."""

from __future__ import annotations

import asyncio

import click

from laneway.cli.errors import Failure
from laneway.cli.logs import LEVELS, configure
from laneway.controllers.metrics import MetricFamilies
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.agent import Agent
from laneway.roles.health import HealthError, health_server
from laneway.roles.stop import run_until_signal


@click.command(
    epilog="""\b
Example: in a pod of a DaemonSet.
    laneway agent --node "$NODE_NAME"
"""
)
@click.option(
    "--node",
    envvar="NODE_NAME",
    required=True,
    show_envvar=True,
    help="Name of this node in the cluster.",
)
@click.option(
    "--kubeconfig",
    metavar="PATH",
    help="How to reach the API server. Default: $KUBECONFIG, ~/.kube/config, or the pod's own "
    "service account.",
)
@click.option(
    "--health-address",
    default="0.0.0.0:9640",
    show_default=True,
    metavar="HOST:PORT",
    help="Where /healthz, /readyz and /metrics are served.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="What to log on stderr.",
)
def agent(node: str, kubeconfig: str | None, health_address: str, log_level: str) -> None:
    """Publish this node's devices and carry out what their objects ask for."""
    configure(log_level)
    host, _, port = health_address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise click.UsageError(f"--health-address must be HOST:PORT, not {health_address!r}")
    try:
        asyncio.run(run_until_signal(_run(node, kubeconfig, host, int(port))))
    except (KubeError, HealthError) as error:
        raise Failure(str(error)) from error


async def _run(node: str, kubeconfig: str | None, host: str, port: int) -> None:
    families = MetricFamilies()
    async with Client(load(kubeconfig)) as client:
        the_agent = Agent(node, RealHost(), client, families)

        def not_ready() -> list[str]:
            return [] if the_agent.ready.is_set() else [node]

        async with health_server(host, port, families.registry, not_ready):
            await the_agent.run()
