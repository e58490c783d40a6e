"""`laneway agent`: the agent of one node of a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable

import click

from laneway.cli.connection import kubeconfig_option
from laneway.cli.errors import Failure
from laneway.cli.health import health_address_option, host_and_port
from laneway.cli.logs import configure, level_option
from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.choice import ChosenExecutor
from laneway.host.executors.local import LocalExecutor
from laneway.host.executors.pod import NAMESPACE, PodExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import STATE_FOLDER, open_state
from laneway.host.port import Executor
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.agent import Agent
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.stop import run_until_signal

log = logging.getLogger(__name__)

KUBELET_FOLDER = "/var/lib/kubelet"
"""Where it is on nearly every node."""

_NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""A node's name is also the value of the label that every object of ours carries."""


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
@kubeconfig_option
@health_address_option(9640)
@click.option(
    "--state-dir",
    default=STATE_FOLDER,
    show_default=True,
    metavar="PATH",
    help="Folder on the node, kept over restarts, for the journal, the audit record and what was "
    "done to devices.",
)
@click.option(
    "--kubelet-dir",
    default=KUBELET_FOLDER,
    show_default=True,
    metavar="PATH",
    help="Folder of the node's kubelet, which allocates devices to pods; without one, devices are "
    "managed but not advertised.",
)
@click.option(
    "--driver-namespace",
    default=NAMESPACE,
    show_default=True,
    metavar="NAME",
    help="Where the pods of NVIDIA's driver are.",
)
@click.option(
    "--no-driver-pod",
    is_flag=True,
    help="The driver is on the node: do not look for a pod to run its programs in.",
)
@click.option(
    "--node-root",
    default="/",
    show_default=True,
    metavar="PATH",
    help="Where the node's own file system is; programs that run on the node have it as their "
    "root.",
)
@click.option(
    "--dra",
    is_flag=True,
    help="Also publish the devices in ResourceSlices (Kubernetes 1.34 or newer), for claims that "
    "select devices by their attributes.",
)
@level_option()
def agent(
    *,
    node: str,
    kubeconfig: str | None,
    health_address: str,
    state_dir: str,
    kubelet_dir: str,
    driver_namespace: str,
    no_driver_pod: bool,
    node_root: str,
    dra: bool,
    log_level: str,
) -> None:
    """Publish this node's devices and carry out what their objects ask for."""
    configure(log_level)
    if not _NODE.fullmatch(node):
        raise Failure(
            f"{node[:80]!r} cannot be a node's name: it has 1 to 63 lower case letters, digits, "
            "'-' and '.'; give the one that 'kubectl get nodes' shows"
        )
    address = host_and_port(health_address)
    if not state_dir:
        raise click.UsageError("--state-dir is empty; name a folder, or leave the option out")
    if not os.path.isdir(node_root):
        raise Failure(f"--node-root: there is no folder {node_root[:80]!r}")
    on_node = LocalExecutor(node_root)

    def executor(client: Client) -> Executor:
        if no_driver_pod:
            return on_node
        in_pod = PodExecutor(client, node, namespace=driver_namespace)
        return ChosenExecutor(in_pod, on_node)

    running = _run(node, kubeconfig, address, executor, state_dir, kubelet_dir, dra=dra)
    try:
        asyncio.run(run_until_signal(running))
    except (KubeError, HealthError) as error:
        raise Failure(str(error)) from error


def _kubelet(folder: str) -> str:
    """The folder of the node's kubelet, if there is one."""
    if os.path.isdir(folder):
        return folder
    log.warning("there is no kubelet at %s, so devices are not handed to pods", folder)
    return ""


async def _run(  # noqa: PLR0917 - called once, in this order
    node: str,
    kubeconfig: str | None,
    address: tuple[str, int],
    executor: Callable[[Client], Executor],
    state_dir: str,
    kubelet_dir: str,
    *,
    dra: bool,
) -> None:
    families = MetricFamilies()
    host = RealHost()
    state = open_state(state_dir, host)
    async with Client(load(kubeconfig)) as client:
        hardware = Hardware(host, executor(client), state)
        kubelet = _kubelet(kubelet_dir)
        the_agent = Agent(node, hardware, client, families, kubelet, dra=dra)

        def not_ready() -> list[str]:
            return [] if the_agent.ready.is_set() else [node]

        async with health_server(*address, families.registry, not_ready) as bound:
            log.info("serving health and metrics on %s", place(address[0], bound))
            await the_agent.run()
