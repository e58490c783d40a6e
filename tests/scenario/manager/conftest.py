"""A cluster with KubeVirt's kinds, time that tests control, and requests that tests can stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from laneway.api import CoreNode, ObjectMeta, PCIDeviceClaim, USBDeviceClaim, VGPUDevice
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import AlreadyExistsError, NotFoundError, UnreachableError
from laneway.kube.kubevirt import KUBEVIRTS
from laneway.kube.leader import LEASES, Timing
from laneway.kube.resource import Resource, served
from laneway.roles.manager import LEASE, NAMESPACE, Manager
from laneway.simcluster.kubevirt.install import install
from support.caches import caught_up

SECONDS = 60.0


class Named(msgspec.Struct, frozen=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


KUBEVIRT_KINDS = [
    Resource("kubevirt.io", "v1", plural, True, Named)
    for plural in ("virtualmachines", "virtualmachineinstances", "kubevirts")
]


class TestClock:
    """Time that stands still until a test moves it."""

    __test__ = False

    def __init__(self) -> None:
        self.seconds = 1000.0
        self._start = datetime(2026, 1, 2, 3, 4, 5, 60_000, tzinfo=UTC)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float, /) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        self._sleepers.append((self.seconds + seconds, sleeper))
        await sleeper

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake those whose time has come."""
        self.seconds += seconds
        due = [sleeper for when, sleeper in self._sleepers if when <= self.seconds]
        self._sleepers = [(w, s) for w, s in self._sleepers if s not in due and not s.done()]
        for sleeper in due:
            if not sleeper.done():
                sleeper.set_result(None)


class Line(Client):
    """A client whose line a test can cut, or let go silent."""

    in_flight = 0
    cut = False
    silent = False
    writing: asyncio.Barrier | None = None
    """Where those who are about to write wait for each other."""

    async def call(self, *args: Any, **kwargs: Any) -> bytes:
        if self.cut:
            raise UnreachableError("the line is cut")
        if self.silent:
            await asyncio.Event().wait()
        self.in_flight += 1
        try:
            if self.writing is not None and args[0] == "PATCH":
                await self.writing.wait()
            return await super().call(*args, **kwargs)
        finally:
            self.in_flight -= 1


class Lines:
    """Clients of one cluster, and the time of those who use them."""

    def __init__(self, kubeconfig: str, stack: contextlib.AsyncExitStack) -> None:
        self.clock = TestClock()
        self._kubeconfig = kubeconfig
        self._stack = stack
        self._lines: list[Line] = []

    async def line(self) -> Line:
        self._lines.append(await self._stack.enter_async_context(Line(load(self._kubeconfig))))
        return self._lines[-1]

    async def until(self, holds: Callable[[], bool], step: float = 0.5) -> None:
        """Let time pass, but only while no request waits for an answer, until something holds."""
        async with asyncio.timeout(SECONDS):
            while not holds():
                # Requests take real time; between them everybody sleeps by the test's clock, after
                # a few turns of the event loop.
                await asyncio.sleep(0.002)
                for _ in range(10):
                    await asyncio.sleep(0)
                if not any(line.in_flight for line in self._lines) and not holds():
                    self.clock.advance(step)

    async def seconds(self, count: float) -> None:
        """Let so much time pass."""
        end = self.clock.seconds + count
        await self.until(lambda: self.clock.seconds >= end)


@pytest.fixture
async def lines(cluster: Any, tmp_path: Path) -> AsyncIterator[Lines]:
    """Clients of the cluster that a test controls; the Lease has no holder."""
    kubeconfig = os.environ["KUBECONFIG"] if cluster.server is None else f"{tmp_path}/kubeconfig"
    await _namespace(cluster.client)
    with contextlib.suppress(NotFoundError):
        await cluster.client.delete(LEASES, LEASE, NAMESPACE)
    async with contextlib.AsyncExitStack() as stack:
        yield Lines(kubeconfig, stack)


async def _clear(client: Client) -> None:
    """All of KubeVirt's objects, whatever holds them."""
    for resource in KUBEVIRT_KINDS:
        with contextlib.suppress(NotFoundError):
            async for page in client.list(resource):
                for item in page.items:
                    meta = resource.decode(item).metadata
                    await client.delete(resource, meta.name, meta.namespace)


NODES = ("node1", "node2")
TIMING = Timing(retry_seconds=0.05)


class World:
    """A cluster as agents, people and managers find it. Agents are played by the test."""

    def __init__(self, cluster: Any, stack: contextlib.AsyncExitStack, kubeconfig: str) -> None:
        self.cluster = cluster
        self.client: Client = cluster.client
        self._stack = stack
        self._kubeconfig = kubeconfig

    # ---- managers ----

    async def manager(self, identity: str = "one", **options: Any) -> Manager:
        """A manager that runs until the test ends or `stop`s it."""
        client = await self._stack.enter_async_context(Client(load(self._kubeconfig)))
        options = {"timing": TIMING} | options
        manager = Manager(client, CollectorRegistry(), identity=identity, **options)
        task = asyncio.create_task(manager.run())
        manager.task = task  # type: ignore[attr-defined]
        self._stack.push_async_callback(self.stop, manager)
        async with asyncio.timeout(SECONDS):
            await manager.ready.wait()
        return manager

    async def stop(self, manager: Manager) -> None:
        task = manager.task  # type: ignore[attr-defined]
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def leads(self, manager: Manager, *, at_work: bool = True) -> None:
        """Wait until a manager leads, and until all of its parts have begun."""

        def begun() -> bool:
            return not at_work or all(part.leading for part in manager.parts)

        async with asyncio.timeout(SECONDS):
            while not (manager.leading and begun()):  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(0.01)

    async def rest(self, manager: Manager) -> None:
        """Have everything looked at once more, as it is stored now, and wait until that is done."""
        async with asyncio.timeout(SECONDS):
            await caught_up(self.client, manager.caches.all.values())
            for part in manager.parts:
                part.ask(part.everything())
                await part.queue.join()
            await manager.recorder.flush()

    def metric(self, manager: Manager, name: str, **labels: str) -> float:
        """A metric of one manager."""
        value = manager.registry.get_sample_value(name, labels)
        assert value is not None, name
        return value

    # ---- objects ----

    async def make(self, kind: Any, name: str, namespace: str = "", **body: Any) -> Any:
        """An object, with the status that its owner would write."""
        resource = kind if isinstance(kind, Resource) else served(kind)
        status = body.pop("status", None)
        meta = {"name": name} | body.pop("metadata", {})
        head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta}
        made = await self.client.create(resource, head | body, namespace)
        if status is not None:
            made = await self.client.patch(
                resource, name, {"status": status}, namespace, subresource="status"
            )
        return made

    async def claim(
        self,
        name: str,
        ids: str = "10de:25b6",
        resource: str = "nvidia.com/GA107GL_A2",
        **more: Any,
    ) -> Any:
        """A PCIDeviceClaim whose device is bound."""
        node, vendor, device = name.rpartition("-")[0], *ids.split(":")
        status = {
            "resourceName": resource,
            "vendorId": vendor,
            "deviceId": device,
            "observedGeneration": 1,
            "conditions": conditions(Bound=True),
        }
        spec = {"nodeName": node, "address": "0000:08:00.0", "userName": "admin"}
        return await self.make(
            PCIDeviceClaim, name, spec=spec, status=status | more.pop("status", {}), **more
        )

    async def stick(self, name: str, **more: Any) -> Any:
        """A USBDeviceClaim whose device is bound."""
        node, vendor, product, _ = name.rsplit("-", 3)
        status = {
            "nodeName": node,
            "resourceName": f"kubevirt.io/{name}",
            "vendorID": vendor,
            "productID": product,
            "conditions": conditions(Bound=True),
        }
        return await self.make(
            USBDeviceClaim,
            name,
            spec={"userName": "admin"},
            status=status | more.pop("status", {}),
            **more,
        )

    async def vgpu(self, name: str, profile: str = "NVIDIA A2-2Q", **more: Any) -> Any:
        """A VGPUDevice that carries a mediated device."""
        status = {
            "framework": "mdev",
            "vGPUStatus": "vGPUConfigured",
            "configureVGPUTypeName": profile,
            "resourceName": f"nvidia.com/{profile.replace(' ', '_')}",
        }
        node = name.rpartition("-")[0]
        spec = {"nodeName": node, "enabled": True, "vGPUTypeName": profile}
        meta = {"labels": {"nodename": node}}
        return await self.make(
            VGPUDevice,
            name,
            metadata=meta,
            spec=spec,
            status=status | more.pop("status", {}),
            **more,
        )

    async def tell(self, kind: Any, name: str, **status: Any) -> Any:
        """What an agent says of one of its objects."""
        return await self.client.patch(served(kind), name, {"status": status}, subresource="status")

    # ---- KubeVirt ----

    async def kubevirt(self, name: str = "kubevirt", namespace: str = NAMESPACE) -> dict[str, Any]:
        """A KubeVirt as it is stored."""
        path = f"/apis/kubevirt.io/v1/namespaces/{namespace}/kubevirts/{name}"
        stored: dict[str, Any] = msgspec.json.decode(await self.client.raw(path))
        return stored

    async def lists(self, name: str = "kubevirt", namespace: str = NAMESPACE) -> dict[str, Any]:
        """Its lists of permitted devices."""
        spec = (await self.kubevirt(name, namespace))["spec"]
        found: dict[str, Any] = spec["configuration"].get("permittedHostDevices", {})
        return found

    async def edit(self, name: str = "kubevirt", namespace: str = NAMESPACE, **lists: Any) -> None:
        """Write lists as a person does."""
        body = {"spec": {"configuration": {"permittedHostDevices": lists}}}
        await self.client.patch(KUBEVIRTS, name, body, namespace)

    async def until(
        self,
        holds: Callable[[dict[str, Any]], bool],
        name: str = "kubevirt",
        namespace: str = NAMESPACE,
    ) -> dict[str, Any]:
        """Wait, by watching, until the lists are as expected."""
        async with asyncio.timeout(SECONDS):
            while True:
                stored = await self.kubevirt(name, namespace)
                lists = stored["spec"]["configuration"].get("permittedHostDevices", {})
                if holds(lists):
                    return dict(lists)
                async for _ in self.client.watch(
                    KUBEVIRTS,
                    namespace,
                    resource_version=stored["metadata"]["resourceVersion"],
                    server_seconds=5,
                ):
                    break

    async def events(self) -> list[tuple[str, str]]:
        """Reason and message of all events about the KubeVirt."""
        about = (await self.kubevirt())["metadata"]["uid"]
        items = msgspec.json.decode(await self.client.raw("/api/v1/events"))["items"]
        return [
            (item["reason"], item["message"])
            for item in items
            if item["involvedObject"].get("uid") == about
        ]


def conditions(**aspects: bool) -> list[dict[str, str]]:
    """Conditions as an agent writes them."""
    return [
        {
            "type": aspect,
            "status": str(holds),
            "reason": "Test",
            "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        }
        for aspect, holds in aspects.items()
    ]


@contextlib.asynccontextmanager
async def _world(cluster: Any, folder: Path) -> AsyncIterator[World]:
    kubeconfig = os.environ["KUBECONFIG"] if cluster.server is None else f"{folder}/kubeconfig"
    await _namespace(cluster.client)
    with contextlib.suppress(NotFoundError):
        await cluster.client.delete(LEASES, LEASE, NAMESPACE)
    async with contextlib.AsyncExitStack() as stack:
        found = World(cluster, stack, kubeconfig)
        for node in NODES:
            await found.make(CoreNode, node)
        yield found
    for node in NODES:
        with contextlib.suppress(NotFoundError):
            free = {"metadata": {"finalizers": None}}
            await cluster.client.patch(served(CoreNode), node, free)


async def _namespace(client: Client) -> None:
    """That in which the Lease is."""
    namespaces = Resource("", "v1", "namespaces", False, Named)
    with contextlib.suppress(AlreadyExistsError):
        await client.create(namespaces, {"metadata": {"name": NAMESPACE}})


@pytest.fixture
async def bare_world(cluster: Any, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with two nodes that has never heard of KubeVirt."""
    if cluster.server is None:
        pytest.skip("a real server keeps the kinds that another test has installed")
    async with _world(cluster, tmp_path) as found:
        yield found


@pytest.fixture
async def world(kubevirt: Any, tmp_path: Path) -> AsyncIterator[World]:
    """A cluster with two nodes and KubeVirt, without any manager yet."""
    async with _world(kubevirt, tmp_path) as found:
        yield found


@pytest.fixture
def agent_says() -> Callable[..., list[dict[str, str]]]:
    """Conditions as an agent writes them."""
    return conditions


@pytest.fixture
async def kubevirt(kubevirt_installed: Path, cluster: Any) -> AsyncIterator[Any]:
    """The cluster, with KubeVirt's kinds and one KubeVirt in it, whose lists are empty."""
    await _clear(cluster.client)
    await install(cluster.client)
    yield cluster
    await _clear(cluster.client)
