"""Laneway in CAPV's place: what tests of its machines do. They play Cluster API."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from laneway.api import find_condition
from laneway.api.vsphere import VCenter, VSphereReservation
from laneway.kube import capv, clusterapi
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.config import load
from laneway.kube.errors import ApiError, NotFoundError
from laneway.kube.events import EventRecorder
from laneway.kube.resource import Resource, served
from laneway.roles.install import install_crds
from laneway.simcluster.clusterapi.install import install
from laneway.vsphere.fleet.caches import VsphereCaches
from laneway.vsphere.fleet.connection import Connect, Timing
from laneway.vsphere.fleet.fleet import Fleet
from laneway.vsphere.fleet.metrics import FleetMetrics
from laneway.vsphere.fleet.reservations import Reservations
from laneway.vsphere.fleet.secrets import SECRETS
from laneway.vsphere.machines import parts
from laneway.vsphere.machines.retry_state import Pace
from support.api_server import contents, running
from support.vcenter import Simulator

SECONDS = 60.0
NAMESPACE = "default"
QUICK = Timing(first=0.02, longest=0.1, secret=0.05, refused=600.0)
PACE = Pace(first=0.05, longest=0.5, look=0.05, task=1.0, rest=1.0, await_clone=5.0)
API = f"{clusterapi.GROUP}/{clusterapi.VERSION}"
RESERVATIONS = served(VSphereReservation)

ORDERS = ("clone", "reconfigure", "upgrade", "relocate", "power_on", "power_off", "destroy")


def stock() -> bytes:
    """What an API server with all kinds of Laneway and of Cluster API holds, to begin with."""

    async def fill(client: Client) -> None:
        await install_crds(client)
        await install(client)

    return contents(fill)


class Wire:
    """A vCenter of the port through which a test stops a controller at an order."""

    def __init__(self, vcenter: Any, stop: Callable[[str, str], Awaitable[None]]) -> None:
        self._vcenter = vcenter
        self._stop = stop

    def __getattr__(self, name: str) -> Any:
        asked = getattr(self._vcenter, name)
        if name not in ORDERS and name != "join_group":
            return asked

        async def order(*args: Any, **kwargs: Any) -> Any:
            await self._stop(name, "before")
            done = await asked(*args, **kwargs)
            await self._stop(name, "after")
            return done

        return order


class Line(Client):
    """A manager's line to the API server: who asks what."""

    def __init__(self, config: ClusterConfig) -> None:
        super().__init__(config)
        self.done: list[tuple[str, str]] = []
        self.refused: list[tuple[str, str]] = []

    async def call(self, method: str, path: str, *args: Any, **kwargs: Any) -> bytes:
        try:
            answer = await super().call(method, path, *args, **kwargs)
        except ApiError:
            self.refused.append((method, path))
            raise
        self.done.append((method, path))
        return answer


class Works:
    """The cluster and what is done to it."""

    def __init__(
        self,
        config: ClusterConfig,
        client: Client,
        stack: contextlib.AsyncExitStack,
        connect: Connect,
    ) -> None:
        """`connect` logs in at the vCenters of a test."""
        self.client = client
        self.config = config
        self.stopped = asyncio.Event()
        """A controller stands at the order at which it was to be stopped."""
        self.stop_at: tuple[str, str] | None = None
        self.line: Line | None = None
        """Of the manager that leads."""
        self._stack = stack
        self._log_in = connect
        self._running: asyncio.Task[None] | None = None

    # ---- the manager ----

    async def lead(self, pace: Pace = PACE) -> None:
        """Have a manager lead, until the test ends or it is killed."""
        client = self.line = await self._stack.enter_async_context(Line(self.config))
        caches = VsphereCaches.of(client)
        recorder = EventRecorder(client, "laneway-manager")
        metrics = FleetMetrics(CollectorRegistry())
        fleet = Fleet(client, caches, self._connect, timing=QUICK)
        reservations = Reservations(client, caches, fleet, metrics)
        leading = [
            fleet,
            reservations,
            *parts(client, caches, fleet, reservations, recorder, pace=pace),
        ]

        async def run() -> None:
            async with asyncio.TaskGroup() as tasks:
                for informer in caches.all.values():
                    tasks.create_task(informer.run())
                tasks.create_task(recorder.run())
                for part in leading:
                    tasks.create_task(part.run())

        self._running = asyncio.create_task(run())

    async def _connect(self, server: str, credentials: Any) -> Any:
        vcenter = await self._log_in(server, credentials)

        @contextlib.asynccontextmanager
        async def wired() -> AsyncIterator[Any]:
            async with vcenter:
                yield Wire(vcenter, self._stop)

        return wired()

    async def _stop(self, order: str, moment: str) -> None:
        if self.stop_at == (order, moment):
            self.stop_at = None
            self.stopped.set()
            await asyncio.Event().wait()  # until it is killed

    async def kill(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
            if not self._running.cancelled() and (error := self._running.exception()):
                raise error
            self._running = None

    # ---- objects ----

    async def make(
        self, resource: Any, name: str, spec: Any = None, *, status: Any = None, **meta: Any
    ) -> Any:
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind or resource.type.__name__,
            "metadata": {"name": name, **meta},
        }
        body |= {"spec": spec} if spec is not None else {}
        space = NAMESPACE if resource.namespaced else ""
        made = await self.client.create(resource, body, space)
        if status is not None:
            body = {"status": status}
            made = await self.client.patch(resource, name, body, space, subresource="status")
        return made

    async def secret(self, name: str, **data: str) -> None:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}
        await self.client.create(SECRETS, body, NAMESPACE)

    async def cluster(self, simulator: Simulator, **spec: Any) -> None:
        """A Cluster `gpus` whose infrastructure Cluster API takes for provisioned."""
        await self.secret("vcenter", username=simulator.user, password=simulator.password)
        await self.make(
            served(VCenter),
            "main",
            {
                "server": simulator.server,
                "secretRef": {"namespace": NAMESPACE, "name": "vcenter"},
                "thumbprint": simulator.thumbprint,
            },
        )
        reference = {"apiGroup": capv.GROUP, "kind": "VSphereCluster", "name": "gpus"}
        owner = await self.make(
            clusterapi.CLUSTERS,
            "gpus",
            {"infrastructureRef": reference},
            status={"initialization": {"infrastructureProvisioned": True}},
        )
        await self.make(
            capv.VSPHERE_CLUSTERS,
            "gpus",
            {"server": simulator.server} | spec,
            ownerReferences=[
                {"apiVersion": API, "kind": "Cluster", "name": "gpus", "uid": owner.metadata.uid}
            ],
        )

    async def machine(
        self, name: str, *devices: Any, zone: str = "", data: bool = True, **spec: Any
    ) -> None:
        """A Machine with its VSphereMachine, as Cluster API makes them."""
        labels = {clusterapi.LABEL_CLUSTER: "gpus"}
        reference = {"apiGroup": capv.GROUP, "kind": "VSphereMachine", "name": name}
        if data:
            await self.secret(f"{name}-data", value="#cloud-config", format="cloud-config")
        above = {
            "clusterName": "gpus",
            "bootstrap": {"dataSecretName": f"{name}-data"},
            "infrastructureRef": reference,
        }
        above |= {"failureDomain": zone} if zone else {}
        owner = await self.make(clusterapi.MACHINES, name, above, labels=labels)
        body = {
            "template": "ubuntu",
            "datacenter": "DC0",
            "resourcePool": "DC0_C0/Resources",
            "network": {"devices": [{"networkName": "VM Network", "dhcp4": True}]},
        }
        body |= {"pciDevices": list(devices)} if devices else {}
        await self.make(
            capv.VSPHERE_MACHINES,
            name,
            {key: value for key, value in (body | spec).items() if value is not None},
            labels=labels,
            ownerReferences=[
                {"apiVersion": API, "kind": "Machine", "name": name, "uid": owner.metadata.uid}
            ],
        )

    async def patch(self, resource: Any, name: str, body: Any) -> Any:
        space = NAMESPACE if resource.namespaced else ""
        return await self.client.patch(resource, name, body, space)

    async def delete(self, name: str) -> None:
        await self.client.delete(capv.VSPHERE_MACHINES, name, NAMESPACE)

    async def get(self, resource: Any, name: str) -> Any:
        return await self.client.get(resource, name, NAMESPACE if resource.namespaced else "")

    async def raw(self, resource: Resource[Any], name: str) -> Any:
        path = resource.path(NAMESPACE if resource.namespaced else "", name)
        return msgspec.json.decode(await self.client.raw(path))

    async def names(self, resource: Any) -> set[str]:
        pages = [page async for page in self.client.list(resource)]
        return {resource.decode(raw).metadata.name for page in pages for raw in page.items}

    async def until(self, resource: Any, name: str, holds: Callable[[Any], bool]) -> Any:
        """An object, once it is as expected."""
        last: Any = None
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    with contextlib.suppress(NotFoundError):
                        last = await self.get(resource, name)
                        if holds(last):
                            return last
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{name} never was as expected; at last {last}") from None

    async def until_ready(self, name: str) -> Any:
        return await self.until(capv.VSPHERE_MACHINES, name, lambda one: is_true(one, "Ready"))

    async def until_says(self, name: str, kind: str, reason: str) -> Any:
        """The VSphereVM, once a condition gives this reason."""
        return await self.until(
            capv.VSPHERE_VMS, name, lambda one: said(one, kind)[:2] == ("False", reason)
        )

    async def until_gone(self, resource: Any, name: str) -> None:
        async with asyncio.timeout(SECONDS):
            while name in await self.names(resource):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.05)

    async def at_rest(self, simulator: Simulator) -> None:
        """Wait until vCenter has carried out all orders."""
        async with asyncio.timeout(SECONDS):
            while {one["state"] for one in simulator.tasks()} & {  # noqa: ASYNC110 - there is no event
                "queued",
                "running",
            }:
                await asyncio.sleep(0.02)

    async def events(self, name: str) -> set[str]:
        """Reasons of the events about an object."""
        items = msgspec.json.decode(await self.client.raw("/api/v1/events"))["items"]
        return {one["reason"] for one in items if one["involvedObject"]["name"] == name}


def said(obj: Any, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition."""
    found = find_condition(obj.status.conditions, kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")


def is_true(obj: Any, kind: str) -> bool:
    return said(obj, kind)[0] == "True"


@contextlib.asynccontextmanager
async def working(stocked: bytes, folder: Path, connect: Connect) -> AsyncIterator[Works]:
    """An API server with all kinds, and `Works` on it."""
    async with running(folder, stocked) as kubeconfig, contextlib.AsyncExitStack() as stack:
        config = load(kubeconfig)
        client = await stack.enter_async_context(Client(config))
        works = Works(config, client, stack, connect)
        yield works
        await works.kill()
