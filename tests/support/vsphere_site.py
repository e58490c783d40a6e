"""A cluster with a manager's parts for vSphere; tests play CAPV and people."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from laneway.api import ObjectMeta
from laneway.api.vsphere import VCenter
from laneway.kube import capv
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Resource, served
from laneway.roles.vsphere import Vsphere
from laneway.vsphere.alongside.capv_vms import CapvVms
from laneway.vsphere.fleet.connection import Connect, Timing
from laneway.vsphere.fleet.secrets import SECRETS
from laneway.vsphere.port import Addition, Clone, Place, Reconfiguration
from support.api_server import running
from support.vcenter import Simulator

SECONDS = 60.0
NAMESPACE = "default"
QUICK = Timing(first=0.02, longest=0.1, secret=0.05, refused=600.0)


class Anything(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


EVENTS = Resource("", "v1", "events", True, Anything)


class Site:
    """The cluster as people and CAPV find it. CAPV is played by the test."""

    def __init__(self, client: Client, stack: contextlib.AsyncExitStack, connect: Connect) -> None:
        """`connect` logs in at the vCenters of a test."""
        self.client = client
        self.kubeconfig = ""
        self.registry = CollectorRegistry()
        self._stack = stack
        self._log_in = connect
        self._running: dict[int, asyncio.Task[None]] = {}

    # ---- the manager ----

    async def lead(self, *, alongside: bool = False, client: Client | None = None) -> Vsphere:
        """The parts of a manager that leads until the test ends, or until it is killed.

        Only with `alongside` does it look at machines by itself.
        """
        client = client or self.client
        self.registry = CollectorRegistry()
        recorder = EventRecorder(client, "laneway-manager")
        found = Vsphere(client, self.registry, recorder, timing=QUICK, connect=self._log_in)
        if not alongside:
            found.parts = [one for one in found.parts if not isinstance(one, CapvVms)]

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for informer in found.caches.all.values():
                    tasks.create_task(informer.run())
                tasks.create_task(recorder.run())
                for part in found.parts:
                    tasks.create_task(part.run())

        self._running[id(found)] = asyncio.create_task(run())
        self._stack.push_async_callback(self.kill, found)
        return found

    async def kill(self, found: Vsphere) -> None:
        if task := self._running.pop(id(found), None):
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()):
                raise error

    async def followed(self, found: Vsphere, simulator: Simulator, called: str = "") -> None:
        """Wait until all hosts of a vCenter are known; `called`: and it by the name it got last."""
        name = ""
        async with asyncio.timeout(SECONDS):
            while not found.fleet.complete(name) or called not in ("", name):
                await asyncio.sleep(0.01)  # nothing announces it
                name = found.fleet.name(simulator.server)

    # ---- vCenter, as CAPV changes it ----

    async def clone(self, found: Vsphere, simulator: Simulator, vm: Any, *more: Any) -> str:
        """The VM of a VSphereVM, switched off."""
        vcenter = found.fleet.vcenter(simulator.server)
        clone = Clone(
            name=vm.metadata.name,
            template="DC0_C0_RP0_VM0",
            place=Place(datacenter="DC0", resource_pool="DC0_C0/Resources"),
            instance_uuid=vm.metadata.uid,
            cpus=2,
            cores_per_socket=1,
            memory_mib=2048,
            lock_memory=True,
        )
        done = await vcenter.finished(await vcenter.clone(clone))
        assert done.fault is None, done.fault
        return done.result

    async def attach(self, found: Vsphere, simulator: Simulator, ref: str, *backings: Any) -> None:
        vcenter = found.fleet.vcenter(simulator.server)
        add = tuple(Addition(-200 - at, backing) for at, backing in enumerate(backings))
        done = await vcenter.finished(await vcenter.reconfigure(ref, Reconfiguration(add)))
        assert done.fault is None, done.fault

    async def power_on(self, found: Vsphere, simulator: Simulator, ref: str) -> None:
        vcenter = found.fleet.vcenter(simulator.server)
        done = await vcenter.finished(await vcenter.power_on(ref))
        assert done.fault is None, done.fault

    async def command(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status and output of `laneway`."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "laneway", *arguments, "--kubeconfig", self.kubeconfig),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode(), err.decode()

    # ---- objects ----

    async def secret(
        self, name: str = "main", user: str = "user", password: str = "pass", **more: str
    ) -> None:
        data = {"username": user, "password": password} | more
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
        try:
            await self.client.patch(SECRETS, name, {"data": encoded}, NAMESPACE)
        except NotFoundError:
            await self.client.create(SECRETS, body, NAMESPACE)

    async def vcenter(self, simulator: Simulator, name: str = "main", **spec: Any) -> None:
        """A VCenter object with its Secret."""
        await self.secret(name)
        ref = {"namespace": NAMESPACE, "name": name}
        body = {"server": simulator.server, "secretRef": ref, "thumbprint": simulator.thumbprint}
        await self.make(VCenter, name, "", spec=body | spec)

    async def make(self, kind: Any, name: str, namespace: str = NAMESPACE, **body: Any) -> Any:
        resource = kind if isinstance(kind, Resource) else served(kind)
        meta = {"name": name} | body.pop("metadata", {})
        head = {
            "apiVersion": resource.api_version,
            "kind": resource.kind or resource.type.__name__,
            "metadata": meta,
        }
        return await self.client.create(resource, head | body, namespace)

    async def vm(self, name: str, simulator: Simulator, *devices: Any, **spec: Any) -> Any:
        """A VSphereVM as CAPV makes it."""
        body = {
            "server": simulator.server,
            "template": "DC0_C0_RP0_VM0",
            "datacenter": "DC0",
            "pciDevices": list(devices),
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        }
        meta = {
            "annotations": spec.pop("annotations", {}),
            "ownerReferences": spec.pop("owners", []),
        }
        return await self.make(capv.VSPHERE_VMS, name, metadata=meta, spec=body | spec)

    async def capv_says(self, vm: Any, **status: Any) -> None:
        """What CAPV writes into the status."""
        await self.client.patch(
            capv.VSPHERE_VMS, vm.metadata.name, {"status": status}, NAMESPACE, subresource="status"
        )

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Types and reasons of the events about an object."""
        items = msgspec.json.decode(await self.client.raw("/api/v1/events"))["items"]
        return [
            (one["type"], one["reason"]) for one in items if one["involvedObject"]["name"] == name
        ]

    async def get(self, kind: Any, name: str, namespace: str = NAMESPACE) -> Any:
        resource = kind if isinstance(kind, Resource) else served(kind)
        return await self.client.get(resource, name, namespace if resource.namespaced else "")

    async def all(self, kind: Any) -> list[Any]:
        resource = kind if isinstance(kind, Resource) else served(kind)
        return [
            resource.decode(raw) async for page in self.client.list(resource) for raw in page.items
        ]

    async def until(
        self, kind: Any, name: str, holds: Callable[[Any], bool], namespace: str = NAMESPACE
    ) -> Any:
        """An object, once it is as expected."""
        last: Any = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    with contextlib.suppress(NotFoundError):
                        last = await self.get(kind, name, namespace)
                        if holds(last):
                            return last
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise AssertionError(f"{name} never was as expected; at last {last}") from None

    async def until_all(self, kind: Any, holds: Callable[[list[Any]], bool]) -> list[Any]:
        """All objects of a kind, once they are as expected."""
        async with asyncio.timeout(SECONDS):
            while True:
                found = await self.all(kind)
                if holds(found):
                    return found
                await asyncio.sleep(0.02)

    async def until_gone(self, kind: Any, name: str, namespace: str = NAMESPACE) -> None:
        async with asyncio.timeout(SECONDS):
            while True:
                try:
                    await self.get(kind, name, namespace)
                except NotFoundError:
                    return
                await asyncio.sleep(0.02)

    async def rest(self, found: Vsphere) -> None:
        """Wait until nothing is left to do."""
        async with asyncio.timeout(SECONDS):
            for part in found.parts:
                part.ask(part.everything())
            for part in found.parts:
                await part.queue.join()


@contextlib.asynccontextmanager
async def serving(stocked: bytes, folder: Path, connect: Connect) -> AsyncIterator[Site]:
    """An API server with all kinds, and a `Site` on it."""
    async with running(folder, stocked) as kubeconfig, contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client(load(kubeconfig)))
        found = Site(client, stack, connect)
        found.kubeconfig = kubeconfig
        yield found
