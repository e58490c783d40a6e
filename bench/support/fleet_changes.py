"""What happens in a fleet all the time, written to its API server, and what follows from it.

Each write stands for one by a user, an agent, KubeVirt or a kubelet, and they come at a steady
rate. What the manager is to do then is awaited in the API: the record on a VM that got its devices,
an entry in KubeVirt's lists of permitted devices, what a node is to have after it was labelled.
Nothing is awaited of heartbeats, and of VMs that stop.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from laneway.api import CoreNode, HostPreparation, PCIDeviceClaim, VGPUDevice
from laneway.core import keys, names
from laneway.kube.client import Client
from laneway.kube.informer import Informer
from laneway.kube.kubevirt import INSTANCES, KUBEVIRTS, VIRTUAL_MACHINES
from laneway.kube.pods import PODS
from laneway.kube.resource import KubeObject, Resource, served
from support import fleet_machines, fleet_objects
from support.busy_fleet import BusyFleet
from support.fleet_objects import LABELLED, MDEV, NAMESPACE, VFIO, Vgpu, Vm

RARE = {
    MDEV: [f"NVIDIA A2-{size}{series}" for size in (4, 8, 16) for series in "CB"],
    VFIO: [f"NVIDIA L40S-{size}{series}" for size in (12, 24, 48) for series in "CA"],
}
"""Profiles that no VM uses: the first vGPU of one is a new entry in KubeVirt's lists."""
PATIENCE_SECONDS = 15.0
WORKERS = 16
_NODES = served(CoreNode)
_VGPUS = served(VGPUDevice)
_CLAIMS = served(PCIDeviceClaim)


class Seen:
    """What the manager has written, as a watcher has it."""

    def __init__(self, client: Client) -> None:
        self._vms = Informer(client, VIRTUAL_MACHINES)
        self._installations = Informer(client, KUBEVIRTS)
        self._preparations = Informer(client, served(HostPreparation))
        self._informers: tuple[Informer[KubeObject], ...] = (
            self._vms,
            self._installations,
            self._preparations,
        )
        self._waiting: set[tuple[Callable[[], bool], asyncio.Future[float]]] = set()
        for informer in self._informers:
            informer.follow(self._look)

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        tasks = [asyncio.create_task(one.run()) for one in self._informers]
        for one in self._informers:
            await one.synced.wait()
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def until(self, condition: Callable[[], bool]) -> float | None:
        """The moment in which it holds; None if it never does."""
        future: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        entry = condition, future
        if condition():
            return time.perf_counter()
        self._waiting.add(entry)
        try:
            return await asyncio.wait_for(future, PATIENCE_SECONDS)
        except TimeoutError:
            return None
        finally:
            self._waiting.discard(entry)

    def _look(self, _: KubeObject) -> None:
        for condition, future in self._waiting:
            if not future.done() and condition():
                future.set_result(time.perf_counter())

    def record(self, vm: str) -> str:
        found = self._vms.store.get(vm, NAMESPACE)
        return (
            "" if found is None else found.metadata.annotations.get(keys.ANNOTATION_ALLOCATION, "")
        )

    def permitted(self, resource: str) -> bool:
        for one in self._installations.store:
            lists = one.spec.configuration.permitted_host_devices
            if lists is not None:
                entries = (*lists.pci_host_devices, *lists.mediated_devices)
                return any(entry["resourceName"] == resource for entry in entries)
        return False

    def labelled(self, node: str) -> bool:
        found = self._preparations.store.get(node)
        return found is not None and LABELLED in found.spec.policies


class Outcome(NamedTuple):
    """What a time of changes came to."""

    writes: int
    seconds: float
    latencies: dict[str, list[float]]
    """By what was awaited, seconds from before the write."""
    missed: dict[str, int]
    """What never came."""
    answers: list[float]
    """How long the API server took for each write."""


class Changes:
    """Writes for as long as `run` runs."""

    def __init__(
        self, client: Client, fleet: BusyFleet, seen: Seen, rate: float, luck: random.Random
    ) -> None:
        self._client = client
        self._fleet = fleet
        self._seen = seen
        self._rate = rate
        self._luck = luck
        self._due = 0.0
        self._running = [vm for vm in fleet.vms if vm.runs]
        self._stopped = [vm for vm in fleet.vms if not vm.runs]
        self._rare = {framework: list(found) for framework, found in RARE.items()}
        self._nodes = list(fleet.nodes)
        self._claimed = 0
        self._latencies: dict[str, list[float]] = defaultdict(list)
        self._missed: dict[str, int] = defaultdict(int)
        self._answers: list[float] = []

    async def run(self, seconds: float, *, heartbeats_only: bool = False) -> Outcome:
        kinds = {self._heartbeat: 20}
        if not heartbeats_only:
            kinds |= {
                self._start: 3,
                self._stop: 3,
                self._change_profile: 2,
                self._claim: 2,
                self._label: 2,
            }
        self._latencies, self._missed, self._answers = defaultdict(list), defaultdict(int), []
        began = self._due = time.perf_counter()

        async def work() -> None:
            while time.perf_counter() < began + seconds:
                await self._luck.choices(list(kinds), list(kinds.values()))[0]()

        async with asyncio.TaskGroup() as tasks:
            for _ in range(WORKERS):
                tasks.create_task(work())
        took = time.perf_counter() - began
        return Outcome(
            len(self._answers), took, dict(self._latencies), dict(self._missed), self._answers
        )

    async def _write(self, call: Awaitable[Any]) -> float:
        """One write in its turn; the moment before it."""
        self._due = max(self._due, time.perf_counter() - 1) + 1 / self._rate
        await asyncio.sleep(self._due - time.perf_counter())
        began = time.perf_counter()
        await call
        self._answers.append(time.perf_counter() - began)
        return began

    async def _effect(self, what: str, call: Awaitable[Any], condition: Callable[[], bool]) -> None:
        """One write, and the manager's answer to it."""
        waiting = asyncio.create_task(self._seen.until(condition))
        began = await self._write(call)
        moment = await waiting
        if moment is None:
            self._missed[what] += 1
        else:
            self._latencies[what].append(moment - began)

    def _patch(
        self, resource: Resource[Any], name: str, body: Any, *, status: bool = False
    ) -> Awaitable[Any]:
        namespace = NAMESPACE if resource.namespaced else ""
        subresource = "status" if status else ""
        return self._client.patch(resource, name, body, namespace, subresource=subresource)

    async def _heartbeat(self) -> None:
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        body = {"status": {"conditions": fleet_machines.node_conditions(now)}}
        await self._write(
            self._patch(_NODES, self._luck.choice(self._fleet.nodes), body, status=True)
        )

    def _some(self, among: list[Any]) -> Any:
        """Take one out, which no other worker has then; put it back afterwards."""
        at = self._luck.randrange(len(among))
        among[at], among[-1] = among[-1], among[at]
        return among.pop()

    async def _start(self) -> None:
        """A stopped VM starts, with other devices than it had."""
        before: Vm = self._some(self._stopped)
        free = self._fleet.free[f"{before.node} {before.vgpus[0].resource}"]
        if len(free) < len(before.vgpus):
            self._stopped.append(before)
            return
        vm = Vm(before.name, True, tuple(free.pop() for _ in before.vgpus))
        free[:0] = before.vgpus
        made = fleet_machines.instance(vm)
        running, made["status"] = made["status"], {"phase": "Scheduling"}
        strategy = {"spec": {"runStrategy": "Always"}}
        await self._write(self._patch(VIRTUAL_MACHINES, vm.name, strategy))
        await self._write(self._client.create(INSTANCES, made, NAMESPACE))
        uid = (await self._client.get(INSTANCES, vm.name, NAMESPACE)).metadata.uid
        pod = fleet_machines.launcher(vm, uid)
        await self._write(self._client.create(PODS, pod, NAMESPACE))
        for one in vm.vgpus[:-1]:
            await self._report(one, vm)
        await self._effect(
            "VM has its devices: the record on it",
            self._patch(_VGPUS, vm.vgpus[-1].name, _held_by(vm), status=True),
            lambda: self._seen.record(vm.name) == vm.record,
        )
        await self._report_claim(vm.vgpus[-1], vm)
        await self._write(self._patch(INSTANCES, vm.name, {"status": running}))
        status = {"status": fleet_machines.vm_status(True)}
        await self._write(self._patch(VIRTUAL_MACHINES, vm.name, status, status=True))
        self._running.append(vm)

    async def _report(self, one: Vgpu, vm: Vm | None) -> None:
        """An agent tells who holds a vGPU."""
        await self._write(self._patch(_VGPUS, one.name, _held_by(vm), status=True))
        await self._report_claim(one, vm)

    async def _report_claim(self, one: Vgpu, vm: Vm | None) -> None:
        if one.framework == VFIO:
            await self._write(self._patch(_CLAIMS, one.name, _held_by(vm), status=True))

    async def _stop(self) -> None:
        vm: Vm = self._some(self._running)
        strategy = {"spec": {"runStrategy": "Halted"}}
        await self._write(self._patch(VIRTUAL_MACHINES, vm.name, strategy))
        await self._write(self._client.delete(PODS, vm.pod, NAMESPACE, grace_seconds=0))
        await self._write(self._client.delete(INSTANCES, vm.name, NAMESPACE))
        for one in vm.vgpus:
            await self._report(one, None)
        status = {"status": fleet_machines.vm_status(False)}
        await self._write(self._patch(VIRTUAL_MACHINES, vm.name, status, status=True))
        self._stopped.append(vm._replace(runs=False))

    async def _change_profile(self) -> None:
        """A free vGPU gets a profile that no other has, and then its own again."""
        framework = self._luck.choice((MDEV, VFIO))
        if not self._rare[framework]:
            return
        rare = self._some(self._rare[framework])
        while True:
            free = self._fleet.free[self._luck.choice(list(self._fleet.free))]
            if free and free[-1].framework == framework:
                break
        one = free.pop()
        resource = names.vgpu_resource_name(rare)
        for profile in (rare, one.profile):
            await self._configure(one, profile, resource, permitted=profile == rare)
        self._rare[framework].append(rare)
        free.append(one)

    async def _configure(self, one: Vgpu, profile: str, resource: str, *, permitted: bool) -> None:
        """A user asks for a profile, and an agent makes the vGPU."""
        await self._write(self._patch(_VGPUS, one.name, {"spec": {"vGPUTypeName": profile}}))
        status = {"status": fleet_objects.vgpu_status(one, profile)}
        report = self._patch(_VGPUS, one.name, status, status=True)
        if one.framework == VFIO:
            await self._write(report)
            status = {"status": {"resourceName": names.vgpu_resource_name(profile)}}
            report = self._patch(_CLAIMS, one.name, status, status=True)
        await self._effect(
            "vGPU has another profile: KubeVirt's list",
            report,
            lambda: self._seen.permitted(resource) is permitted,
        )

    async def _claim(self) -> None:
        """A device of its own kind is claimed, and released again."""
        self._claimed += 1
        number = self._claimed
        node, resource = self._luck.choice(self._fleet.nodes), f"mellanox.com/NIC_{number}"
        card = Vgpu(f"{node}-0000f0{number % 32:02x}0", node, "", "0000:f0:00.0", VFIO, "")
        made = fleet_objects.claim(card, None)
        made["metadata"] |= {"name": f"{card.name}-{number}", "finalizers": []}
        name = made["metadata"]["name"]
        ids = {"vendorId": "15b3", "deviceId": f"{number % 65536:04x}"}
        status = {"status": fleet_objects.claim_status(resource, ids)}
        del made["status"]
        what = "claim comes or goes: KubeVirt's list"
        await self._write(self._client.create(_CLAIMS, made))
        report = self._patch(_CLAIMS, name, status, status=True)
        await self._effect(what, report, lambda: self._seen.permitted(resource))
        release = self._client.delete(_CLAIMS, name)
        await self._effect(what, release, lambda: not self._seen.permitted(resource))

    async def _label(self) -> None:
        """A node is labelled, so that another policy selects it, and loses its label again."""
        if not self._nodes:
            return
        node: str = self._some(self._nodes)
        await self._put_label(node, labelled=True)
        await self._put_label(node, labelled=False)
        self._nodes.append(node)

    async def _put_label(self, node: str, *, labelled: bool) -> None:
        body = {"metadata": {"labels": {LABELLED: "true" if labelled else None}}}
        await self._effect(
            "node is labelled: its HostPreparation",
            self._patch(_NODES, node, body),
            lambda: self._seen.labelled(node) is labelled,
        )


def _held_by(vm: Vm | None) -> Any:
    return {"status": {"allocation": fleet_objects.holder(vm)}}
