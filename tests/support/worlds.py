"""A whole cluster with simulated nodes, on which VMs run and have devices open.

`World` is what `laneway up --simulate` runs, in one event loop, with what a test does to it: kill
an agent, restart a kubelet, boot a node, have a guest shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.kubevirt import KUBEVIRTS, MIGRATIONS
from laneway.kube.pods import PODS
from laneway.kubelet.pod_resources import PodResources
from laneway.roles.agent import Agent
from laneway.roles.booting import HostAgent, HostKubelet
from laneway.roles.hosts import NodeHost
from laneway.roles.manager import Manager
from laneway.sim.host import SimulatedHost
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.spec import build, parse_spec
from laneway.simcluster.kubevirt.controller import KubeVirt
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS
from laneway.simcluster.node import NodeKubelet
from laneway.simcluster.runtime import Runtime
from laneway.simcluster.scheduler import Scheduler
from support.plans import BOOT, hardware_of
from support.through_api import NAMESPACE, SECONDS, ThroughApi

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
DOWN_SECONDS = 0.02
"""How long a server takes to boot."""


@dataclass
class SimNode:
    """One node: what stays when its processes are killed, and the processes."""

    name: str
    spec: str
    folder: Path
    host: SimulatedHost
    runtime: Runtime
    kubelet: Kubelet
    boots: int = 0
    agent: Agent | None = None
    tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)

    @property
    def kubelet_folder(self) -> str:
        return str(self.folder / "kubelet")

    def holders(self) -> dict[str, Sequence[str]]:
        """The devices that every pod has open, by uid."""
        workloads = {uid: self.runtime.get(uid) for uid in self.runtime.uids}
        return {uid: one.opened for uid, one in workloads.items() if one is not None and one.opened}


class World(ThroughApi):
    """The cluster. `cluster` is the fixture of that name: API server, client, metrics."""

    def __init__(self, cluster: Any, folder: Path) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.managers_client = cluster.own
        """Set before the start, to have the manager act as another user."""
        self.agent_clients: dict[str, Client] = {}
        """By node, set before an agent starts: those that do not act as the administrator."""
        self.certificates = False
        """Set before the start, to have the manager keep that of a webhook."""
        self.machine_capacity = False
        """Set before the start, to have the manager say what CAPK's machines will have."""
        self.dra = False
        """Set before nodes are added, to have agents say in ResourceSlices what they advertise."""
        self.nodes: dict[str, SimNode] = {}
        self.runtimes: dict[str, Runtime] = {}
        self.manager: Manager | None = None
        self._managing: asyncio.Task[None] | None = None
        self._kubevirt: asyncio.Task[None] | None = None
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------ starting, ending

    async def start(self) -> None:
        """Scheduler, KubeVirt and manager."""
        self.start_kubernetes()
        await self.start_manager()

    def start_kubernetes(self) -> None:
        """Scheduler and KubeVirt: what is there before anything of Laneway's."""
        self._tasks.append(asyncio.create_task(Scheduler(self.client).run()))
        self.start_kubevirt()

    def start_kubevirt(self, client: Client | None = None) -> None:
        """A KubeVirt that goes on where the last one was."""
        kubevirt = KubeVirt(client or self.cluster.kubevirts, self.runtimes)
        self._kubevirt = asyncio.create_task(kubevirt.run())

    async def kill_kubevirt(self) -> None:
        """End KubeVirt wherever it is; what runs goes on."""
        if self._kubevirt is not None:
            await _cancel(self._kubevirt)
            self._kubevirt = None

    async def start_manager(self) -> None:
        # Of one name, so that one that was killed is not waited for.
        self.manager = Manager(
            self.managers_client,
            CollectorRegistry(),
            identity="manager",
            certificates=self.certificates,
            machine_capacity=self.machine_capacity,
            tracer=self.cluster.tracer,
        )
        self._managing = asyncio.create_task(self.manager.run())
        others = [self._kubevirt] if self._kubevirt is not None else []
        await self._or_fail(self.manager.ready.wait(), self._managing, *self._tasks, *others)

    async def restart_manager(self) -> None:
        """End the manager wherever it is, and start another."""
        await self.kill_manager()
        await self.start_manager()

    async def kill_manager(self) -> None:
        """End the manager wherever it is."""
        if self._managing is not None:
            await _cancel(self._managing)
            self._managing = None

    async def stop(self) -> None:
        """End everything."""
        self._tasks += [task for task in (self._managing, self._kubevirt) if task is not None]
        for node in self.nodes.values():
            self._tasks.extend(node.tasks.values())
        for task in self._tasks:
            task.cancel()
        for outcome in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(
                outcome, asyncio.CancelledError
            ):
                raise outcome

    async def add(self, name: str, spec: str, *, agent: bool = True) -> SimNode:
        """A node that is ready, with an agent that has published its devices."""
        folder = self._folder / name
        host = build(parse_spec(spec), name)
        runtime = Runtime(host, str(folder / "runtime.json"))
        kubelet = Kubelet(str(folder / "kubelet"))
        node = SimNode(name, spec, folder, host, runtime, kubelet)
        self.nodes[name] = node
        self.runtimes[name] = runtime
        await self.start_kubelet(node)
        if agent:
            await self.start_agent(node)
        return node

    async def add_server(self, name: str, spec: str) -> SimNode:
        """A node that may reboot: its kubelet and its agent end with each boot of its host."""
        folder = self._folder / name
        host = build(parse_spec(spec), name)
        runtime = Runtime(host, str(folder / "runtime.json"))
        node = SimNode(name, spec, folder, host, runtime, Kubelet(str(folder / "kubelet")))
        self.nodes[name], self.runtimes[name] = node, runtime
        state = folder / "state"
        state.mkdir(parents=True)
        hardware = Hardware(host, host, open_state(str(state), host))
        server = NodeHost(name, hardware, spec, node.kubelet_folder, runtime)
        client = await self.cluster.connect()
        kubelet = HostKubelet(server, client, runtime, down_seconds=DOWN_SECONDS)
        agent = HostAgent(
            server,
            self.agent_clients.get(name, client),
            self.cluster.families,
            timing=self.cluster.timing,
            down_seconds=DOWN_SECONDS,
            tracer=self.cluster.tracer,
        )
        for what, part in (("kubelet", kubelet), ("agent", agent)):
            task = node.tasks[what] = asyncio.create_task(part.run())
            await self._or_fail(part.ready.wait(), task)
        return node

    async def start_kubelet(self, node: SimNode) -> None:
        """A kubelet that begins with what the last one left."""
        node.kubelet = Kubelet(node.kubelet_folder)
        kubelet = NodeKubelet(node.name, self.client, node.kubelet, node.runtime)
        task = node.tasks["kubelet"] = asyncio.create_task(kubelet.run())
        await self._or_fail(kubelet.ready.wait(), task)

    async def stop_kubelet(self, node: SimNode) -> None:
        """Its containers go on."""
        await _cancel(node.tasks.pop("kubelet"))

    async def restart_kubelet(self, node: SimNode) -> None:
        await self.stop_kubelet(node)
        await self.start_kubelet(node)

    async def start_agent(self, node: SimNode) -> Agent:
        boot = BOOT[:-4] + f"{node.boots:04x}"
        hardware = hardware_of(node.host, node.folder / "state", boot=boot)
        node.agent = Agent(
            node.name,
            hardware,
            self.agent_clients.get(node.name, self.cluster.own),
            self.cluster.families,
            kubelet=node.kubelet_folder,
            dra=self.dra,
            timing=self.cluster.timing,
        )
        task = node.tasks["agent"] = asyncio.create_task(node.agent.run())
        await self._or_fail(node.agent.ready.wait(), task)
        return node.agent

    async def kill_agent(self, node: SimNode) -> None:
        """End an agent wherever it is."""
        await _cancel(node.tasks.pop("agent"))

    async def boot(self, node: SimNode) -> None:
        """Switch a node off and on: nothing runs there, and the hardware has forgotten all."""
        await self.kill_agent(node)
        await self.stop_kubelet(node)
        (node.folder / "runtime.json").unlink(missing_ok=True)
        node.boots += 1
        node.host = build(parse_spec(node.spec), node.name)
        node.runtime = Runtime(node.host, str(node.folder / "runtime.json"))
        self.runtimes[node.name] = node.runtime
        await self.start_kubelet(node)
        await self.start_agent(node)

    async def clean(self) -> None:
        """Leave a server that others use as it was found, whatever state things are in."""
        for resource in (VMS, MIGRATIONS, INSTANCES, PODS):
            pages = self.client.list(resource, NAMESPACE)
            for obj in [resource.decode(item) async for page in pages for item in page.items]:
                name = obj.metadata.name
                with contextlib.suppress(NotFoundError):
                    free = {"metadata": {"finalizers": None}}
                    await self.client.patch(resource, name, free, NAMESPACE)
                    await self.client.delete(resource, name, NAMESPACE, grace_seconds=0)
        nothing = {"spec": {"configuration": {"permittedHostDevices": None}}}
        await self.client.patch(KUBEVIRTS, "kubevirt", nothing, "harvester-system")

    async def _or_fail(self, ready: Any, *tasks: asyncio.Task[None]) -> None:
        """Wait for something, or for the end of a task that was to bring it."""
        waiter = asyncio.ensure_future(ready)
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({waiter, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                waiter.cancel()
                task.result()

    # ------------------------------------------------------------------------- what nodes know

    async def owners(self, node: SimNode) -> Mapping[tuple[str, str], Any]:
        """Allocations, as the node's kubelet reports them."""
        return await PodResources(node.kubelet_folder).owners()

    async def opened(self, vm: str) -> list[str]:
        """The devices that a running VM has open, by the last part of their path."""
        pod = await self.pod(vm)
        workload = self.nodes[pod.spec.node_name].runtime.get(pod.metadata.uid)
        assert workload is not None
        return sorted(path.rpartition("/")[2] for path in workload.opened)

    async def shut_down(self, vm: str, code: int = 0) -> None:
        """The guest ends by itself, or its process dies."""
        pod = await self.pod(vm)
        self.nodes[pod.spec.node_name].runtime.exit(pod.metadata.uid, code)


@contextlib.asynccontextmanager
async def started(cluster: Any, folder: Path) -> AsyncIterator[World]:
    """A world that runs until the block ends."""
    world = World(cluster, folder)
    try:
        await world.start()
        yield world
    finally:
        await world.stop()
        if REAL:
            await world.clean()


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
