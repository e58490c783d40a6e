"""A real API server that is killed, compacted and overloaded, and an agent and a manager on it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from laneway.api import PCIDevice, PCIDeviceClaim, VGPUDevice, find_condition
from laneway.api.registry import KINDS
from laneway.controllers.metrics import MetricFamilies
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.kube.errors import AlreadyExistsError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.roles.install import install_crds, install_namespace
from laneway.roles.manager import NAMESPACE, Manager
from laneway.sim.changes import Change
from laneway.sim.spec import build, parse_spec
from support.control_plane import until_served
from support.fault_proxy import FaultProxy
from support.plans import hardware_of
from support.real_server import RealServer, programs, release

SECONDS = 90.0
PROFILE = "NVIDIA A2-4Q"


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """Of the programs of the server under test."""
    folder = programs()
    if not os.environ.get("LANEWAY_REALAPI"):
        pytest.fail("these tests start API servers: make test-current")
    if folder is None:
        pytest.skip("a given cluster is not killed")
    if release(folder) < (1, 36):
        pytest.skip("this is proved on a current Kubernetes")
    server = RealServer(folder, tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def admin(real: RealServer) -> AsyncIterator[Client]:
    """The administrator of a server with Laneway's kinds."""
    async with Client(real.admin) as client:
        await install_crds(client)
        await install_namespace(client, NAMESPACE)
        for kind in KINDS:
            await until_served(client, kind.path)
        yield client


class Node:
    """A node that no other test has: its agent, and what users want of it."""

    def __init__(self, admin: Client, folder: Path, stack: contextlib.AsyncExitStack) -> None:
        self.name = f"node-{uuid.uuid4().hex[:8]}"
        self.host = build(parse_spec("a2"), self.name)
        self.hardware: list[Change] = []
        """What was written to it."""
        self.admin = admin
        self._folder = folder
        self._stack = stack
        self.agent: Agent | None = None

    def vgpu(self, function: int) -> str:
        """The name of a virtual function of its GPU."""
        return f"{self.name}-00000800{function}"

    @property
    def nic(self) -> str:
        return f"{self.name}-000004001"

    async def run(self, config: ClusterConfig) -> Agent:
        """An agent that has published its devices."""
        client = await self._stack.enter_async_context(Client(config))
        hardware = hardware_of(self.host, self._folder / self.name)
        self.agent = Agent(self.name, hardware, client, MetricFamilies())
        await self._running(self.agent)
        self.host.record_changes(self.hardware.append)
        return self.agent

    async def manage(self, config: ClusterConfig) -> Manager:
        """A manager that knows its cluster."""
        client = await self._stack.enter_async_context(Client(config))
        manager = Manager(client, CollectorRegistry())
        await self._running(manager)
        return manager

    async def _running(self, role: Any) -> None:
        task = asyncio.create_task(role.run())
        self._stack.push_async_callback(_cancelled, task)
        async with asyncio.timeout(SECONDS):
            await role.ready.wait()

    async def line(self, config: ClusterConfig) -> FaultProxy:
        return await self._stack.enter_async_context(FaultProxy(config).running())

    async def ask(self, function: int, profile: str = PROFILE) -> None:
        """Have a vGPU; no profile: none."""
        spec = {"enabled": bool(profile), "vGPUTypeName": profile or None}
        await self.admin.patch(served(VGPUDevice), self.vgpu(function), {"spec": spec})

    async def claim(self) -> None:
        """Claim the network card."""
        device = await self.admin.get(served(PCIDevice), self.nic)
        body = {
            "apiVersion": device.api_version,
            "kind": "PCIDeviceClaim",
            "metadata": {"name": self.nic},
            "spec": {
                "address": device.status.address,
                "nodeName": self.name,
                "userName": "admin",
            },
        }
        await self.admin.create(served(PCIDeviceClaim), body)

    async def configured(self, function: int, profile: str = PROFILE) -> None:
        """Wait until a vGPU is as desired, and said to be."""

        def holds(vgpu: Any) -> bool:
            return vgpu.status.configure_vgpu_type_name == profile and _answered(vgpu, "Ready")

        await self.until(VGPUDevice, self.vgpu(function), holds)

    async def bound(self) -> None:
        """Wait until the network card can be had."""
        await self.until(PCIDeviceClaim, self.nic, lambda claim: _answered(claim, "Bound"))

    async def until(self, cls: type[Any], name: str, holds: Callable[[Any], bool]) -> None:
        """Wait, by watching, until an object is as a test expects."""
        resource, only = served(cls), f"metadata.name={name}"
        async with asyncio.timeout(SECONDS):
            while True:
                pages = [page async for page in self.admin.list(resource, field_selector=only)]
                if any(holds(resource.decode(item)) for item in pages[-1].items):
                    return
                events = self.admin.watch(
                    resource,
                    resource_version=pages[-1].resource_version,
                    field_selector=only,
                    server_seconds=5,
                )
                async with contextlib.aclosing(events):
                    async for _ in events:
                        break


def _answered(obj: Any, condition: str) -> bool:
    found = find_condition(obj.status.conditions, condition)
    return (
        found is not None
        and found.status == "True"
        and found.observed_generation == obj.metadata.generation
    )


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def node(admin: Client, tmp_path: Path) -> AsyncIterator[Node]:
    async with contextlib.AsyncExitStack() as stack:
        yield Node(admin, tmp_path, stack)
    with warnings.catch_warnings():
        # asyncio leaves a TLS connection open that is given up before its handshake has begun.
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def create(admin: Client) -> Any:
    """Creates an object of any kind, if it is not there."""

    async def make(path: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(AlreadyExistsError):
            await admin.call("POST", path, None, body)

    return make
