"""`laneway agent`: the agent of one node of a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Callable
from typing import NamedTuple

from laneway.cli.cluster_options import ClusterChoice
from laneway.cli.errors import Failure
from laneway.cli.health import host_and_port
from laneway.cli.host.hardware import opened
from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.choice import ChosenExecutor
from laneway.host.executors.local import LocalExecutor
from laneway.host.executors.pod import PodExecutor
from laneway.host.hardware import Hardware
from laneway.host.port import Executor
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.roles.agent import COMPONENT, Agent
from laneway.roles.health import HealthError, health_server, place
from laneway.roles.stop import run_until_signal
from laneway.roles.telemetry import TelemetryError, telemetry

log = logging.getLogger(__name__)

_NODE = re.compile(r"(?=.{1,63}$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
"""A node's name is also the value of the label that every object of ours carries."""


class Folders(NamedTuple):
    """Where an agent finds and keeps what."""

    state: str | None
    """None where it is the usual one, or that of a simulated host, which ends with the agent."""
    kubelet: str
    node_root: str


def run_agent(
    node: str,
    where: ClusterChoice,
    health_address: str,
    folders: Folders,
    *,
    driver_namespace: str,
    prepare_host: bool,
    dra: bool,
    simulate: str | None,
    endpoint: str,
    audit: str,
) -> None:
    """Run until a signal ends it. Raises Failure.

    `driver_namespace`: empty where the driver is on the node. `prepare_host`: whether HostPolicies
    apply. `simulate`: the host in its place. `endpoint` and `audit`: as `telemetry` has them.
    """
    if not _NODE.fullmatch(node):
        raise Failure(
            f"{node[:80]!r} cannot be the name of a node: it has 1 to 63 lower case letters, "
            "digits, '-' and '.'; 'kubectl get nodes' lists the nodes"
        )
    address = host_and_port(health_address)
    if not os.path.isdir(folders.node_root):
        raise Failure(f"--node-root: the folder {folders.node_root[:80]!r} does not exist")
    on_node = LocalExecutor(folders.node_root)

    def executor(client: Client) -> Executor:
        if not driver_namespace:
            return on_node
        in_pod = PodExecutor(client, node, namespace=driver_namespace)
        return ChosenExecutor(in_pod, on_node)

    with opened(simulate, folders.state) as hardware:

        def reached(client: Client) -> Hardware:
            return hardware._replace(executor=executor(client)) if simulate is None else hardware

        files = hardware if simulate is not None else None
        if prepare_host and simulate is None:
            files = hardware._replace(host=RealHost(folders.node_root), executor=on_node)
        kubelet = folders.kubelet if simulate is None else ""
        running = _run(
            node,
            where,
            address,
            reached,
            kubelet,
            files=files,
            dra=dra,
            endpoint=endpoint,
            audit=audit,
        )
        try:
            asyncio.run(run_until_signal(running))
        except (KubeError, HealthError, TelemetryError) as error:
            raise Failure(str(error)) from error


def _kubelet(folder: str) -> str:
    """The folder of the node's kubelet, if there is one."""
    if not folder or os.path.isdir(folder):
        return folder
    log.warning("no kubelet at %s; devices are not advertised to pods", folder)
    return ""


async def _run(
    node: str,
    where: ClusterChoice,
    address: tuple[str, int],
    reached: Callable[[Client], Hardware],
    kubelet: str,
    *,
    files: Hardware | None,
    dra: bool,
    endpoint: str,
    audit: str,
) -> None:
    families = MetricFamilies()
    sending = telemetry(COMPONENT, families.registry, endpoint=endpoint, audit=audit, node=node)
    async with contextlib.AsyncExitStack() as stack:
        told = stack.enter_context(sending)
        client = await stack.enter_async_context(Client(load(where.kubeconfig, where.context)))
        the_agent = Agent(
            node,
            reached(client)._replace(recorded=told.recorded),
            client,
            families,
            _kubelet(kubelet),
            files=files and files._replace(recorded=told.recorded),
            dra=dra,
            tracer=told.tracer,
        )

        def not_ready() -> list[str]:
            return [] if the_agent.ready.is_set() else [node]

        async with health_server(*address, families.registry, not_ready) as bound:
            log.info("serving health and metrics on %s", place(address[0], bound))
            await the_agent.run()
