"""What a test asks of a cluster through its API server, and waits for: devices, claims and VMs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice
from laneway.kube.client import Client
from laneway.kube.errors import GoneError
from laneway.kube.pods import PODS, Pod
from laneway.kube.resource import Resource, served
from laneway.simcluster.kubevirt.manifest import current_pod, pod_name
from laneway.simcluster.kubevirt.objects import INSTANCES, VMS, Instance, Vm
from laneway.simcluster.objects import ENDED, NODES, Node

SECONDS = 60.0
NAMESPACE = "default"


class ThroughApi:
    """A user who may do all; `client` acts as this user."""

    client: Client

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
        """Have a VM run or not."""
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


def _is(obj: Any, condition: str) -> bool:
    """Whether the latest desired state is met in one respect."""
    return obj is not None and any(
        one.type == condition
        and one.status == "True"
        and one.observed_generation == obj.metadata.generation
        for one in obj.status.conditions
    )
