"""A kubelet in a folder of its own, and the smallest plugin that it takes."""

# ruff: noqa: N802 - the methods have the protocol's names

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from grpclib import GRPCError, Status

from laneway.api.kubelet.deviceplugin_grpc import DevicePluginBase, RegistrationStub
from laneway.api.kubelet.deviceplugin_pb2 import (
    AllocateResponse,
    ContainerAllocateResponse,
    ContainerPreferredAllocationResponse,
    Device,
    DevicePluginOptions,
    DeviceSpec,
    ListAndWatchResponse,
    PreferredAllocationResponse,
    RegisterRequest,
)
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.sockets import Dialled, Service

GPU = "nvidia.com/GPU"


@dataclass(eq=False)
class Plugin(DevicePluginBase):
    """Offers `devices` (id: healthy) as one resource; the container gets the ids."""

    folder: Path
    devices: dict[str, bool]
    resource: str = GPU
    endpoint: str = "gpu.sock"
    version: str = "v1beta1"
    prefers: list[str] | None = None
    refuses: str = ""
    answers: int = 1
    asked: list[str] = field(default_factory=list)

    async def serve(self) -> None:
        self._changed = asyncio.Condition()
        self.left = asyncio.Event()
        self._service = Service(self)
        await self._service.listen(str(self.folder / "device-plugins"), self.endpoint)

    async def register(self) -> None:
        request = RegisterRequest(
            version=self.version, endpoint=self.endpoint, resource_name=self.resource
        )
        folder = str(self.folder / "device-plugins")
        async with Dialled(folder, "kubelet.sock", "localhost") as channel:
            await RegistrationStub(channel).Register(request, timeout=20)

    async def put(self, devices: dict[str, bool]) -> None:
        async with self._changed:
            self.devices = devices
            self._changed.notify_all()

    async def end(self) -> None:
        await self._service.stop()
        (self.folder / "device-plugins" / self.endpoint).unlink(missing_ok=True)

    async def GetDevicePluginOptions(self, stream: Any) -> None:
        await stream.recv_message()
        await stream.send_message(
            DevicePluginOptions(get_preferred_allocation_available=self.prefers is not None)
        )

    async def ListAndWatch(self, stream: Any) -> None:
        await stream.recv_message()
        try:
            async with self._changed:
                while True:
                    devices = [
                        Device(ID=one, health="Healthy" if healthy else "Unhealthy")
                        for one, healthy in self.devices.items()
                    ]
                    await stream.send_message(ListAndWatchResponse(devices=devices))
                    await self._changed.wait()
        finally:
            self.left.set()

    async def GetPreferredAllocation(self, stream: Any) -> None:
        request = (await stream.recv_message()).container_requests[0]
        available = ",".join(request.available_deviceIDs)
        self.asked.append(f"prefer {request.allocation_size} of {available}")
        preferred = ContainerPreferredAllocationResponse(deviceIDs=self.prefers or [])
        await stream.send_message(PreferredAllocationResponse(container_responses=[preferred]))

    async def Allocate(self, stream: Any) -> None:
        ids = (await stream.recv_message()).container_requests[0].devicesIDs
        self.asked.append(f"allocate {','.join(ids)}")
        if self.refuses:
            raise GRPCError(Status.FAILED_PRECONDITION, self.refuses)
        answer = ContainerAllocateResponse(
            envs={self.resource: ",".join(ids)},
            devices=[
                DeviceSpec(container_path=path, host_path=path, permissions="mrw")
                for path in ["/dev/vfio/vfio", *(f"/dev/vfio/{one}" for one in ids)]
            ],
        )
        await stream.send_message(AllocateResponse(container_responses=[answer] * self.answers))

    async def PreStartContainer(self, stream: Any) -> None:
        raise AssertionError("not asked for")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Longer than the address of a socket can be."""
    return tmp_path / ("long" * 20) / ("longer" * 20)


@pytest.fixture
async def kubelets(folder: Path) -> AsyncIterator[Callable[..., Awaitable[Kubelet]]]:
    """Starts kubelets on the one folder."""
    started = []

    async def start(**options: Any) -> Kubelet:
        kubelet = Kubelet(str(folder), **options)
        started.append(kubelet)
        await kubelet.start()
        return kubelet

    yield start
    for kubelet in started:
        await kubelet.stop()


@pytest.fixture
async def kubelet(kubelets: Callable[..., Awaitable[Kubelet]]) -> Kubelet:
    """A kubelet that runs."""
    return await kubelets()


@pytest.fixture
async def plugins(folder: Path) -> AsyncIterator[Callable[..., Awaitable[Plugin]]]:
    """Starts plugins, which register by default."""
    started = []

    async def start(
        devices: dict[str, bool] | None = None, *, register: bool = True, **options: Any
    ) -> Plugin:
        plugin = Plugin(folder, devices or {}, **options)
        await plugin.serve()
        started.append(plugin)
        if register:
            await plugin.register()
        return plugin

    yield start
    for plugin in started:
        await plugin.end()


@pytest.fixture
def until() -> Callable[[Kubelet, Callable[[], bool]], Awaitable[None]]:
    """Waits for what comes with a change of a kubelet's counts."""

    async def wait(kubelet: Kubelet, holds: Callable[[], bool]) -> None:
        changed = asyncio.Event()
        kubelet.subscribe(changed.set)
        while not holds():
            await asyncio.wait_for(changed.wait(), 20)
            changed.clear()

    return wait
