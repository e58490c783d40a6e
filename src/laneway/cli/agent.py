"""`laneway agent`: the agent of one node of a cluster."""

from __future__ import annotations

import asyncio
import logging
import re

import click

from laneway.cli.errors import Failure
from laneway.cli.logs import LEVELS, configure
from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.choice import ChosenExecutor
from laneway.host.executors.local import LocalExecutor
from laneway.host.executors.pod import PodExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import STATE_FOLDER, open_state
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.agent import Agent
from laneway.roles.health import HealthError, health_server
from laneway.roles.stop import run_until_signal

log = logging.getLogger(__name__)

_NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""A node's name is also the value of the label that every object of ours carries."""
_ADDRESS = re.compile(r"(?P<host>\[[^]]+]|[^:]+):(?P<port>[0-9]{1,5})")


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
    metavar="NAME",
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
    help="Where /healthz, /readyz and /metrics are served; an IPv6 address stands in brackets.",
)
@click.option(
    "--state-dir",
    default=STATE_FOLDER,
    show_default=True,
    metavar="PATH",
    help="Folder on the node, kept over restarts, for the journal, the audit record and what was "
    "done to devices.",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    show_default=True,
    help="What to log on stderr.",
)
def agent(
    node: str, kubeconfig: str | None, health_address: str, state_dir: str, log_level: str
) -> None:
    """Publish this node's devices and carry out what their objects ask for."""
    configure(log_level)
    if not _NODE.fullmatch(node):
        raise Failure(
            f"{node[:80]!r} cannot be a node's name: it has 1 to 63 lower case letters, digits, "
            "'-' and '.'; give the one that 'kubectl get nodes' shows"
        )
    address = _ADDRESS.fullmatch(health_address)
    if address is None or int(address["port"]) > 65535:
        raise click.UsageError(f"--health-address must be HOST:PORT, not {health_address!r}")
    if not state_dir:
        raise click.UsageError("--state-dir is empty; name a folder, or leave the option out")
    host = address["host"].removeprefix("[").removesuffix("]")
    port = int(address["port"])
    try:
        asyncio.run(run_until_signal(_run(node, kubeconfig, host, port, state_dir)))
    except (KubeError, HealthError) as error:
        raise Failure(str(error)) from error


async def _run(node: str, kubeconfig: str | None, address: str, port: int, state_dir: str) -> None:
    families = MetricFamilies()
    host = RealHost()
    state = open_state(state_dir, host)
    async with Client(load(kubeconfig)) as client:
        executor = ChosenExecutor(PodExecutor(client, node), LocalExecutor())
        the_agent = Agent(node, Hardware(host, executor, state), client, families)

        def not_ready() -> list[str]:
            return [] if the_agent.ready.is_set() else [node]

        async with health_server(address, port, families.registry, not_ready) as bound:
            log.info("serving health and metrics on %s port %d", address, bound)
            await the_agent.run()
