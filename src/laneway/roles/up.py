"""All of Laneway on one machine: the embedded API server and an agent for every host.

Everything runs in one event loop. The agents reach the API server through TLS like any other
client, so nothing that works here depends on being in the same process. What must survive a
restart is in the data directory: the database, the certificate authority, the administrator's
token, the writes to simulated hosts, and what runs on them.

Each part has an account of its own, as on a cluster, and may do everything: so the webhook can
tell a person's writes from those that follow hardware. Their tokens are made for one run and are
nowhere but in memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kapilite import serving
from kapilite.authn import SYSTEM, User
from kapilite.authn.users import MASTERS, service_account_name
from kapilite.credentials.pki import PkiError
from kapilite.server import ListenError
from kapilite.storage.store import StoreError
from kubebasics.files import FolderError
from laneway.admission.vms import makers
from laneway.api import CoreNode, VGPUDevice
from laneway.controllers.metrics import MetricFamilies
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.cluster import User as Credentials
from laneway.kube.config import load
from laneway.kube.errors import KubeError
from laneway.kube.leader import Timing
from laneway.kube.resource import served
from laneway.roles.admitting import ACCOUNT, admission, unregister
from laneway.roles.booting import HostAgent
from laneway.roles.clusterapi import simulated_cluster_api
from laneway.roles.datadir import DataDir, open_data_dir
from laneway.roles.health import HealthError, health_server
from laneway.roles.hosts import NodeHost, simulated, this_machine
from laneway.roles.install import install_crds, install_namespace, install_setting
from laneway.roles.manager import NAMESPACE, Manager
from laneway.roles.simulated import simulated_cluster
from laneway.roles.telemetry import TelemetryError, telemetry
from laneway.roles.ui import ACCOUNT as UI
from laneway.roles.ui import Ui, UiError
from laneway.roles.webhook import AGENT, MANAGER
from laneway.sim.dump import DumpError
from laneway.sim.persistence import HostLogError
from laneway.sim.spec import Spec
from laneway.simcluster.clusterapi.guests import is_guest
from laneway.simcluster.clusterapi.install import install as install_cluster_api
from laneway.simcluster.clusterapi.kubevirt.install import install as install_capk
from laneway.simcluster.clusterapi.objects import KUBEVIRT as CAPK
from laneway.simcluster.clusterapi.objects import VSPHERE
from laneway.simcluster.harvester.install import install as install_harvester
from laneway.simcluster.harvester.volumes import Volumes
from laneway.simcluster.kubevirt import install as kubevirt
from laneway.simcluster.node import mark_silent, register
from laneway.simcluster.rancher.controller import SimulatedRancher
from laneway.simcluster.rancher.install import install as install_rancher
from laneway.simcluster.runtime import RuntimeStateError
from laneway.web.history.store import Keeping
from laneway.web.metrics import UiMetrics

log = logging.getLogger(__name__)

COMPONENT = "laneway-up"
"""Its name in traces."""
LOOPBACK = "127.0.0.1"

KUBERNETES = "kubernetes"
"""What stands for Kubernetes' own parts."""
KUBEVIRT = "kubevirt"
"""What stands for KubeVirt's."""

_TOKEN_BYTES = 32


@dataclass(frozen=True)
class Options:
    """What the command line chose."""

    data_dir: str
    simulate: Sequence[Spec]
    local: bool
    port: int
    dra: bool = False
    """Whether agents say in ResourceSlices what they advertise."""
    vsphere: bool = False
    """Whether machines of Cluster API on vSphere are made."""
    cluster_api: bool = False
    """Whether those on KubeVirt are; not both."""
    rancher: bool = False
    """Whether machine pools of Rancher's guest clusters become VMs."""
    ui_port: int = 0
    """The port of the web interface; 0 leaves it to the kernel."""
    endpoint: str = ""
    """Where traces of all of it go; empty: nowhere."""


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
    vsphere: bool = False
    """Machines of Cluster API on vSphere are made."""
    ui: str = ""
    """An address of the web interface that signs in as the administrator, once."""


Report = Callable[[str], None]

FAILURES = (
    FolderError,
    DumpError,
    HealthError,
    HostLogError,
    KubeError,
    ListenError,
    PkiError,
    RuntimeStateError,
    StoreError,
    TelemetryError,
    UiError,
)
"""What can be wrong with a machine or an argument, each with a text for a person."""


async def up(options: Options, report: Report, ready: Callable[[Running], None]) -> None:
    """Run until cancelled. `report` gets a line per stage, `ready` what is up when all is."""
    staff, families = Staff(), MetricFamilies()
    with (
        telemetry(COMPONENT, families.registry, endpoint=options.endpoint) as told,
        open_data_dir(options.data_dir) as data,
    ):
        hosts = [this_machine(data)] if options.local else []
        hosts += simulated(options.simulate, data)
        async with api_server(data, options.port, staff.users) as api:
            pki = api.credentials.pki
            report(f"API server listening on {api.url}")
            config = load(data.kubeconfig)
            async with Client(config) as client, Client(staff.config(config, ACCOUNT)) as asking:
                await unregister(client)
                await install_crds(client)
                await install_setting(client)
                await install_namespace(client, NAMESPACE)
                if options.simulate:
                    await kubevirt.install(client)
                nodes = {host.node for host in hosts}
                known = await _nodes(client)
                working = set(nodes)
                if options.vsphere:
                    await install_cluster_api(client)
                    working |= {name for name, node in known.items() if is_guest(node)}
                if options.cluster_api:
                    await install_capk(client)
                if options.rancher:
                    await install_rancher(client)
                    await install_harvester(client)
                await mark_silent(client, working)
                for host in hosts:
                    await register(client, host.node)
                report(f"Scanning {len(hosts)} host{'s' if len(hosts) != 1 else ''}")
                async with (
                    simulated_cluster(
                        staff.config(config, KUBERNETES), staff.config(config, KUBEVIRT), hosts
                    ),
                    _cluster_api(staff, config, options, data),
                    _rancher(staff, config, options),
                    admission(
                        asking,
                        families.registry,
                        NAMESPACE,
                        cert_file=pki.server_cert,
                        key_file=pki.server_key,
                        ca_pem=pki.ca_pem,
                        tracer=told.tracer,
                    ) as webhook,
                    _agents(
                        staff,
                        config,
                        hosts,
                        families,
                        webhook.waiting_for,
                        options=options,
                        tracer=told.tracer,
                    ) as metrics,
                    _ui(
                        staff,
                        config,
                        families,
                        options.ui_port,
                        data=data,
                        tracer=told.tracer,
                    ) as ui,
                ):
                    ready(
                        Running(
                            api.url,
                            data.kubeconfig,
                            metrics,
                            hosts,
                            forgotten=sorted(known.keys() - working),
                            example=await _example(client, nodes),
                            vsphere=options.vsphere,
                            ui=ui,
                        )
                    )
                    await asyncio.Event().wait()


def _cluster_api(
    staff: Staff, config: ClusterConfig, options: Options, data: DataDir
) -> contextlib.AbstractAsyncContextManager[None]:
    """Cluster API, where it is desired for."""
    if not (options.vsphere or options.cluster_api):
        return contextlib.nullcontext()
    return simulated_cluster_api(
        staff.config(config, KUBERNETES),
        data.kubeconfig,
        VSPHERE if options.vsphere else CAPK,
        schedule=not options.simulate,
    )


@contextlib.asynccontextmanager
async def _rancher(staff: Staff, config: ClusterConfig, options: Options) -> AsyncIterator[None]:
    """A stand-in for Rancher and Harvester, if there is to be one. This server is both clusters."""
    if not options.rancher:
        yield
        return
    async with Client(staff.config(config, KUBERNETES)) as client, asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(SimulatedRancher(client, client).run()),
            tasks.create_task(Volumes(client).run()),
        ]
        yield
        for one in running:
            one.cancel()


class Staff:
    """Everything here that is no person: a user of the API server each, with all rights."""

    def __init__(self) -> None:
        names = {
            name: service_account_name(NAMESPACE, name) for name in (AGENT, MANAGER, ACCOUNT, UI)
        }
        names[KUBERNETES] = SYSTEM.name
        names[KUBEVIRT] = service_account_name(kubevirt.NAMESPACE, makers.ACCOUNT)
        self._tokens = {name: secrets.token_urlsafe(_TOKEN_BYTES) for name in names}
        self.users = {self._tokens[name]: User(user, (MASTERS,)) for name, user in names.items()}
        """By their tokens."""

    def config(self, config: ClusterConfig, name: str) -> ClusterConfig:
        """How one of them reaches the same server."""
        return replace(config, user=Credentials(token=self._tokens[name]))


@contextlib.asynccontextmanager
async def _agents(
    staff: Staff,
    config: ClusterConfig,
    hosts: Sequence[NodeHost],
    families: MetricFamilies,
    others: Callable[[], Sequence[str]],
    *,
    options: Options,
    tracer: Tracer | None,
) -> AsyncIterator[str]:
    """Agents that have published their hosts, and a manager; gives the address of all metrics.

    `others` says what else is waited for.

    Each has a client of its own, as on a cluster: the watches of many agents would take up all the
    connections that one client has, and leave none to write with.
    """
    clients = [Client(staff.config(config, AGENT)) for _ in hosts]
    managing = Client(staff.config(config, MANAGER))
    # No other process can use this database, so one that was killed is not waited for, nor need one
    # give up that a hundred simulated hosts keep from renewing.
    manager = Manager(
        managing,
        families.registry,
        identity="laneway-up",
        timing=Timing(lease_seconds=300, renew_seconds=240.0),
        machine_capacity=options.cluster_api,
        vsphere="standalone" if options.vsphere else "none",
        check_nodes=options.vsphere,
        tracer=tracer,
    )
    agents = [
        HostAgent(host, client, families, dra=options.dra, tracer=tracer)
        for host, client in zip(hosts, clients, strict=True)
    ]

    def not_ready() -> list[str]:
        waiting = [agent.node for agent in agents if not agent.ready.is_set()]
        return [*waiting, *manager.waiting_for(), *others()]

    async with contextlib.AsyncExitStack() as stack:
        for client in (managing, *clients):
            await stack.enter_async_context(client)
        serving = health_server(LOOPBACK, 0, families.registry, not_ready)
        port = await stack.enter_async_context(serving)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        tasks.create_task(manager.run(), name="manager")
        for agent in agents:
            tasks.create_task(agent.run(), name=f"agent {agent.node}")
        await manager.ready.wait()
        for agent in agents:
            await agent.ready.wait()
        yield f"http://{LOOPBACK}:{port}/metrics"


@contextlib.asynccontextmanager
async def _ui(
    staff: Staff,
    config: ClusterConfig,
    families: MetricFamilies,
    port: int,
    *,
    data: DataDir,
    tracer: Tracer | None,
) -> AsyncIterator[str]:
    """The web interface; gives an address that signs in as the administrator, once."""
    async with Client(staff.config(config, UI)) as client:
        metrics = UiMetrics(families.registry)
        ui = Ui(
            client,
            config,
            metrics,
            host=LOOPBACK,
            port=port,
            option="--ui-port",
            history=Keeping(data.history),
            tracer=tracer,
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(ui.run(), name="ui")
            await ui.ready.wait()
            yield f"http://{LOOPBACK}:{ui.port}{ui.once(config.user.token)}"
            task.cancel()


@contextlib.asynccontextmanager
async def api_server(
    data: DataDir, port: int, users: Mapping[str, User] | None = None
) -> AsyncIterator[serving.Serving]:
    """The API server of a data directory, with its authority and keys.

    `users` are those besides the administrator, by their tokens.
    """
    folder = serving.Folder(data.path)
    known = serving.credentials(folder)
    async with serving.serving(folder, known, port=port, users=users, name="laneway") as found:
        yield found


async def _nodes(client: Client) -> dict[str, CoreNode]:
    resource = served(CoreNode)
    pages = client.list(resource)
    found = [resource.decode(item) async for page in pages for item in page.items]
    return {node.metadata.name: node for node in found}


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
