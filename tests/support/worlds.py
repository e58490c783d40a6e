"""A whole cluster with simulated nodes, on which VMs run and have devices open.

`World` is what `laneway up --simulate` runs, in one event loop, with what a test does to it: kill
an agent, restart a kubelet, boot a node, have a guest shut down.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.host.hardware import Hardware
from laneway.host.plans.state import open_state
from laneway.kube.client import Client
from laneway.kube.errors import GoneError, NotFoundError
from laneway.kube.kubevirt import KUBEVIRTS, MIGRATIONS
from laneway.kube.pods import PODS, Pod
from laneway.kube.resource import Resource, served
from laneway.kubelet.pod_resources import PodResources
from laneway.roles.agent import Agent
from laneway.roles.booting import HostAgent, HostKubelet
from laneway.roles.hosts import NodeHost
from laneway.roles.manager import Manager
from laneway.sim.host import SimulatedHost
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.spec import build, parse_spec
from laneway.simcluster.kubevirt.controller import KubeVirt
from laneway.simcluster.kubevirt.manifest import current_pod, pod_name
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS, Instance, Vm
from laneway.simcluster.node import NodeKubelet
from laneway.simcluster.objects import ENDED, NODES, Node
from laneway.simcluster.runtime import Runtime
from laneway.simcluster.scheduler import Scheduler
from support.plans import BOOT, hardware_of

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
SECONDS = 60.0
NAMESPACE = "default"
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


class World:
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

    # ------------------------------------------------------------------------------- watching

    async def until(
        self,
        resource: Resource[Any],
        name: str,
        holds: Callable[[Any], bool],
        namespace: str = "",
    ) -> Any:
        """Wait, by watching, until an object is as a test expects; None stands for no object."""
        selector = f"metadata.name={name}"
        obj = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    listed = self.client.list(resource, namespace, field_selector=selector)
                    [page] = [page async for page in listed]
                    obj = resource.decode(page.items[0]) if page.items else None
                    if holds(obj):
                        return obj
                    events = self.client.watch(
                        resource,
                        namespace,
                        resource_version=page.resource_version,
                        field_selector=selector,
                        server_seconds=5,
                    )
                    # Gone, as on a real server when the definition of a kind changes: look again.
                    with contextlib.suppress(GoneError):
                        async with contextlib.aclosing(events):
                            async for _event in events:
                                break
        except TimeoutError:
            raise AssertionError(f"{resource} {name} stays {obj}") from None

    # ------------------------------------------------------------------------ devices and pods

    async def vgpu(self, name: str, profile: str) -> Any:
        """Configure a vGPU; returns it once it can be had."""
        spec = {"enabled": True, "vGPUTypeName": profile}
        await self.client.patch(served(VGPUDevice), name, {"spec": spec})
        return await self.until(served(VGPUDevice), name, lambda one: _is(one, "Advertised"))

    async def claim(self, name: str, **spec: Any) -> Any:
        """Claim a PCI device; returns the claim once the device can be had."""
        await self.make_claim(name, **spec)
        return await self.until(served(PCIDeviceClaim), name, lambda one: _is(one, "Ready"))

    async def make_claim(self, name: str, **spec: Any) -> Any:
        """Claim a PCI device, as Harvester's user interface does."""
        device = await self.client.get(served(PCIDevice), name)
        owner = {
            "apiVersion": device.api_version,
            "kind": device.kind,
            "name": name,
            "uid": device.metadata.uid,
        }
        body = {
            "apiVersion": device.api_version,
            "kind": "PCIDeviceClaim",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "address": device.status.address,
                "nodeName": device.status.node_name,
                "userName": "",
                **spec,
            },
        }
        return await self.client.create(served(PCIDeviceClaim), body)

    async def release(self, name: str) -> None:
        """Delete a claim, and wait until it is gone."""
        await self.client.delete(served(PCIDeviceClaim), name)
        await self.until(served(PCIDeviceClaim), name, lambda one: one is None)

    async def allocatable(self, node: str, resource: str, count: int) -> None:
        """Wait until the kubelet of a node counts so many devices; 0 is as good as none."""

        def holds(one: Node | None) -> bool:
            return one is not None and int(one.status.allocatable.get(resource, 0)) == count

        await self.until(NODES, node, holds)

    async def owners(self, node: SimNode) -> Mapping[tuple[str, str], Any]:
        """Allocations, as the node's kubelet reports them."""
        return await PodResources(node.kubelet_folder).owners()

    # ------------------------------------------------------------------------ VMs

    async def make_vm(
        self,
        name: str,
        *,
        host_devices: Sequence[str] = (),
        gpus: Sequence[str] = (),
        node: str = "",
        strategy: str = "Always",
        hostname: str = "",
    ) -> Vm:
        """A VM that requests these resources."""
        devices = {
            "hostDevices": [{"name": f"d{n}", "deviceName": r} for n, r in enumerate(host_devices)],
            "gpus": [{"name": f"g{n}", "deviceName": r} for n, r in enumerate(gpus)],
        }
        spec: dict[str, Any] = {
            "domain": {"devices": devices, "resources": {"requests": {"memory": "2Gi"}}}
        }
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        if hostname:
            spec["hostname"] = hostname
        body = {
            "apiVersion": VMS.api_version,
            "kind": VMS.kind,
            "metadata": {"name": name},
            "spec": {"runStrategy": strategy, "template": {"spec": spec}},
        }
        return await self.client.create(VMS, body, NAMESPACE)

    async def status(self, name: str, *wanted: str) -> Vm:
        """Wait until a VM's printable status is one of these."""

        def holds(one: Vm | None) -> bool:
            return one is not None and one.status.printable_status in wanted

        return await self.until(VMS, name, holds, NAMESPACE)

    async def running(self, name: str) -> Instance:
        """Wait until a VM runs; its instance."""
        await self.status(name, "Running")
        return await self.client.get(INSTANCES, name, NAMESPACE)

    async def unschedulable(self, name: str) -> str:
        """Wait until a VM fits nowhere; the scheduler's words."""
        await self.status(name, "ErrorUnschedulable")
        instance = await self.client.get(INSTANCES, name, NAMESPACE)
        [condition] = [one for one in instance.status.conditions if one.type == "PodScheduled"]
        return condition.message

    async def not_permitted(self, name: str, resource: str) -> None:
        """Wait until a VM requests what KubeVirt does not permit."""
        words = f"HostDevice {resource} is not permitted in permittedHostDevices configuration"

        def holds(one: Instance | None) -> bool:
            return one is not None and any(words in c.message for c in one.status.conditions)

        await self.until(INSTANCES, name, holds, NAMESPACE)

    async def run_vm(self, name: str, *, on: bool) -> None:
        """Desired state a VM on or off."""
        body = {"spec": {"runStrategy": "Always" if on else "Halted"}}
        await self.client.patch(VMS, name, body, NAMESPACE)

    async def stop_vm(self, name: str) -> None:
        """Stop a VM, and wait until its instance is gone."""
        await self.run_vm(name, on=False)
        await self.until(INSTANCES, name, lambda one: one is None, NAMESPACE)
        await self.status(name, "Stopped")

    async def delete_vm(self, name: str) -> None:
        """Delete a VM, and wait until it is gone and with it all that it had."""
        await self.client.delete(VMS, name, NAMESPACE)
        await self.until(VMS, name, lambda one: one is None, NAMESPACE)

    async def pod(self, vm: str) -> Pod:
        """The pod that runs a VM, and not one that the VM has left."""
        pages = self.client.list(PODS, NAMESPACE, label_selector=f"vm.kubevirt.io/name={vm}")
        pods = [PODS.decode(item) async for page in pages for item in page.items]
        running = [pod for pod in pods if pod.status.phase not in ENDED]
        if len(running) > 1:  # it migrates
            instance = await self.client.get(INSTANCES, vm, NAMESPACE)
            running = [pod for pod in running if pod.metadata.name == current_pod(instance)]
        [pod] = running
        return pod

    async def pod_of(self, vm: str) -> Pod:
        """The pod that is to run a VM, once it is bound to a node."""
        instance = await self.until(
            INSTANCES,
            vm,
            lambda one: one is not None and one.status.phase == "Scheduling",
            NAMESPACE,
        )
        return await self.until(
            PODS,
            pod_name(instance),
            lambda one: one is not None and bool(one.spec.node_name),
            NAMESPACE,
        )

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


def _is(obj: Any, condition: str) -> bool:
    """Whether the latest desired state is met in one respect."""
    return obj is not None and any(
        one.type == condition
        and one.status == "True"
        and one.observed_generation == obj.metadata.generation
        for one in obj.status.conditions
    )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
