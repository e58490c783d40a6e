"""A kubelet, plugins in its folder, and a way to call these as a kubelet does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from laneway.api.kubelet.deviceplugin_grpc import DevicePluginStub, RegistrationBase
from laneway.api.kubelet.deviceplugin_pb2 import Empty
from laneway.api.kubelet.sockets import within
from laneway.core.device_plugin.offer import Offer
from laneway.core.pci import PciAddress
from laneway.kubelet.plugins import Plugins
from laneway.kubelet.sockets import endpoint
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.sim.kubelet.sockets import Dialled, Service
from support.devices import function_offer

GPU = "nvidia.com/GA100_A100"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A kubelet's, with a path longer than the address of a socket can be."""
    folder = tmp_path / ("long" * 20) / ("longer" * 20)
    (folder / "device-plugins").mkdir(parents=True)
    (folder / "pod-resources").mkdir()
    return folder


@pytest.fixture
async def kubelet(folder: Path) -> AsyncIterator[Kubelet]:
    """One that runs."""
    kubelet = Kubelet(str(folder))
    await kubelet.start()
    yield kubelet
    await kubelet.stop()


class Registrations(RegistrationBase):
    """A kubelet that takes every registration, and then does nothing by itself."""

    def __init__(self) -> None:
        self.taken: asyncio.Queue[str] = asyncio.Queue()

    async def Register(self, stream: Any) -> None:  # noqa: N802 - the protocol's name
        request = await stream.recv_message()
        self.taken.put_nowait(request.resource_name)
        await stream.send_message(Empty())


@pytest.fixture
async def registrations(folder: Path) -> AsyncIterator[asyncio.Queue[str]]:
    """The names that were registered with a kubelet that does nothing more."""
    handler = Registrations()
    service = Service(handler)
    await service.listen(str(folder / "device-plugins"), "kubelet.sock")
    yield handler.taken
    await service.stop()


@pytest.fixture
def gpus() -> Callable[..., list[Offer]]:
    """Offers of whole GPUs: `gpus(1, 2)` are at 0000:01:00.0 and 0000:02:00.0."""

    def make(*buses: int, **fields: Any) -> list[Offer]:
        return [
            function_offer(PciAddress(0, bus, 0, 0), **({"resource": GPU, "group": bus} | fields))
            for bus in buses
        ]

    return make


@pytest.fixture
async def plugins(folder: Path) -> AsyncIterator[Plugins]:
    """Those of an agent that runs."""
    plugins = Plugins(str(folder))
    running = asyncio.create_task(plugins.run())
    yield plugins
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


@pytest.fixture
def until() -> Callable[..., Awaitable[None]]:
    """Waits for what comes with a change of a kubelet or of plugins."""

    async def wait(holds: Callable[[], object], *subjects: Kubelet | Plugins) -> None:
        changed = asyncio.Event()
        for subject in subjects:
            subject.subscribe(changed.set)
        while not holds():
            await asyncio.wait_for(changed.wait(), 20)
            changed.clear()

    return wait


@pytest.fixture
def at_socket(folder: Path) -> Callable[[str], Any]:
    """A path to the plugin of a resource by which it can be reached in a block."""
    return lambda resource: within(str(folder / "device-plugins"), endpoint(resource))


@pytest.fixture
async def called(folder: Path) -> AsyncIterator[Callable[[str], DevicePluginStub]]:
    """Calls the plugin of a resource, which need not have been registered."""
    channels: list[Dialled] = []

    def call(resource: str = GPU) -> DevicePluginStub:
        channels.append(Dialled(str(folder / "device-plugins"), endpoint(resource), "localhost"))
        return DevicePluginStub(channels[-1])

    yield call
    for channel in channels:
        channel.close()
