"""All of Laneway on one machine: the embedded API server and an agent for every host.

Everything runs in one event loop. The agents reach the API server through TLS like any other
client, so nothing that works here depends on being in the same process. What must survive a
restart is in the data directory: the database, the certificate authority, the administrator's
token, and the writes to simulated hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import secrets
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from laneway.api import CoreNode, VGPUDevice
from laneway.apiserver.authn import Authenticator, User, keys
from laneway.apiserver.credentials import kubeconfig
from laneway.apiserver.credentials.files import write_atomically
from laneway.apiserver.credentials.pki import ensure
from laneway.apiserver.server import ApiServer
from laneway.controllers.metrics import MetricFamilies
from laneway.host.executors.local import LocalExecutor
from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.host.real import RealHost
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.config import load
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.roles.datadir import DataDir, DataDirError, naming_failures, open_data_dir
from laneway.roles.health import health_server
from laneway.roles.install import install_crds
from laneway.sim.persistence import open_simulated
from laneway.sim.spec import Spec

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"

_TOKEN_BYTES = 32
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")  # what so many bytes become


@dataclass(frozen=True)
class Options:
    """What the command line chose."""

    data_dir: str
    simulate: Sequence[Spec]
    local: bool
    port: int


@dataclass(frozen=True)
class NodeHost:
    """A host that an agent looks after."""

    node: str
    hardware: Hardware
    about: str


@dataclass(frozen=True)
class Running:
    """What is up: everything that a person needs to go on."""

    server: str
    kubeconfig: str
    metrics: str
    hosts: Sequence[NodeHost]
    forgotten: Sequence[str]
    """Nodes that the database knows from an earlier run and that have no host in this one."""
    example: tuple[str, str] | None
    """A VGPUDevice and a profile that could be configured on it now."""


Report = Callable[[str], None]


async def up(options: Options, report: Report, ready: Callable[[Running], None]) -> None:
    """Run until cancelled. `report` gets a line per stage, `ready` what is up when all is."""
    with open_data_dir(options.data_dir) as data:
        hosts = _hosts(options, data)
        async with api_server(data, options.port) as server:
            report(f"API server listening on {server}")
            config = load(data.kubeconfig)
            async with Client(config) as client:
                await install_crds(client)
                nodes = {host.node for host in hosts}
                known = await _nodes(client)
                for host in hosts:
                    await _register(client, host)
                report(f"Scanning {len(hosts)} host{'s' if len(hosts) != 1 else ''}")
                async with _agents(config, hosts) as metrics:
                    ready(
                        Running(
                            server,
                            data.kubeconfig,
                            metrics,
                            hosts,
                            forgotten=sorted(known - nodes),
                            example=await _example(client, nodes),
                        )
                    )
                    await asyncio.Event().wait()


@contextlib.asynccontextmanager
async def _agents(config: ClusterConfig, hosts: Sequence[NodeHost]) -> AsyncIterator[str]:
    """Agents that have published their hosts; gives the address of their metrics.

    Each has a client of its own, as on a cluster: the watches of many agents would take up all the
    connections that one client has, and leave none to write with.
    """
    families = MetricFamilies()
    clients = [Client(config) for _ in hosts]
    agents = [
        Agent(host.node, host.hardware, client, families)
        for host, client in zip(hosts, clients, strict=True)
    ]

    def not_ready() -> list[str]:
        return [agent.node for agent in agents if not agent.ready.is_set()]

    async with contextlib.AsyncExitStack() as stack:
        for client in clients:
            await stack.enter_async_context(client)
        serving = health_server(LOOPBACK, 0, families.registry, not_ready)
        port = await stack.enter_async_context(serving)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        for agent in agents:
            tasks.create_task(agent.run(), name=f"agent {agent.node}")
        for agent in agents:
            await agent.ready.wait()
        yield f"http://{LOOPBACK}:{port}/metrics"


@contextlib.asynccontextmanager
async def api_server(data: DataDir, port: int) -> AsyncIterator[str]:
    """The API server of a data directory, with its authority and keys; gives its address."""
    with naming_failures(data.path):
        pki = ensure(data.pki, [socket.gethostname()])
        token = _token(data)
        signing_key = keys.ensure(data.signing_key)
    authenticator = Authenticator({token: User("admin", ("system:masters",))})
    server = ApiServer(
        data.database,
        host=LOOPBACK,
        port=port,
        tls=pki.ssl_context(),
        authenticator=authenticator,
        signing_key=signing_key,
        ca_pem=pki.ca_pem,
    )
    await server.start()
    try:
        with naming_failures(data.path):
            kubeconfig.write(data.kubeconfig, server=server.url, ca_pem=pki.ca_pem, token=token)
        yield server.url
    finally:
        await server.stop()


def _token(data: DataDir) -> str:
    """The administrator's token, made once. A part of one would be a weak credential."""
    try:
        with open(data.token, encoding="ascii", errors="replace") as file:
            token = file.read().strip()
    except FileNotFoundError:
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        write_atomically(data.token, f"{token}\n".encode())
    if not _TOKEN.fullmatch(token):
        raise DataDirError(
            f"{data.token} is damaged: remove it and start again; a new token is then made, "
            "and clients need the new kubeconfig"
        )
    return token


def _hosts(options: Options, data: DataDir) -> list[NodeHost]:
    hosts = []
    if options.local:
        node, real = _label(socket.gethostname()), RealHost()
        hardware = Hardware(real, LocalExecutor(), open_state(data.node_state(node), real))
        hosts.append(NodeHost(node, hardware, "this machine"))
    numbers: Counter[str] = Counter()
    for spec in options.simulate:
        label = _label(spec.label)
        about = f"simulated from {spec.path}" if spec.path else f"simulated {spec.model}"
        for _ in range(spec.count):
            numbers[label] += 1
            node = f"sim-{label}-{numbers[label]}"
            host = open_simulated(spec, node, data.host_log(node))
            hardware = Hardware(host, host, open_state(data.node_state(node), host))
            hosts.append(NodeHost(node, hardware, about))
    return hosts


def _label(text: str) -> str:
    """Text as a DNS label, which a node's name must be."""
    return re.sub(r"[^a-z0-9-]+", "-", text.lower()).strip("-")[:50].rstrip("-") or "node"


async def _nodes(client: Client) -> set[str]:
    resource = served(CoreNode)
    return {
        resource.decode(item).metadata.name
        async for page in client.list(resource)
        for item in page.items
    }


async def _example(client: Client, nodes: set[str]) -> tuple[str, str] | None:
    """A vGPU of these nodes that could be configured now, and the last of its profiles by name."""
    resource = served(VGPUDevice)
    async for page in client.list(resource):
        for item in page.items:
            vgpu = resource.decode(item)
            if vgpu.spec.node_name not in nodes or vgpu.spec.enabled:
                continue
            if vgpu.status.available_types:
                return vgpu.metadata.name, max(vgpu.status.available_types)
    return None


async def _register(client: Client, host: NodeHost) -> None:
    """Make the cluster's node of a host, as a kubelet would."""
    resource = served(CoreNode)
    labels = {"kubernetes.io/hostname": host.node, "kubernetes.io/os": "linux"}
    with contextlib.suppress(AlreadyExistsError):
        await client.create(resource, {"metadata": {"name": host.node, "labels": labels}})
