"""When a host is scanned, and what is reported about it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.observer import Observer
from laneway.core.inventory import Inventory
from laneway.core.kernel.uevent import OVERFLOW, Uevent
from laneway.host.hardware import Hardware
from laneway.host.port import UeventsUnavailableError
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec


class Watched:
    """A simulated host that counts scans and takes events from the test."""

    def __init__(self, spec: str = "plain", *, unavailable: str = "") -> None:
        self._host: SimulatedHost = build(parse_spec(spec), "node1")
        self._unavailable = unavailable
        self.events: asyncio.Queue[Uevent] = asyncio.Queue()
        self.scans = 0
        self.paths: list[str] = []
        """Files that were read."""
        self.scanned = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> object:
        return getattr(self._host, name)

    def names(self, path: str) -> list[str]:
        if path == "/sys/bus/pci/devices":
            self.scans += 1
            self._loop.call_soon_threadsafe(self.scanned.set)
        return self._host.names(path)

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return self._host.read(path)

    @contextlib.asynccontextmanager
    async def uevents(self) -> AsyncIterator[AsyncIterator[Uevent]]:
        if self._unavailable:
            raise UeventsUnavailableError(self._unavailable)

        async def received() -> AsyncIterator[Uevent]:
            while True:
                yield await self.events.get()
                self.events.task_done()

        yield received()


class Running:
    """An observer at work, with every inventory that it reported."""

    def __init__(self, host: Watched) -> None:
        self.host = host
        hardware = Hardware(host, host, None)  # type: ignore[arg-type]
        self.locks = GpuLocks()
        self.observer = Observer(hardware, self.locks, AgentMetrics(MetricFamilies(), "node1"))
        self.reported: list[Inventory] = []
        self._heard = asyncio.Event()
        self.observer.subscribe(self._hear)

    def _hear(self, inventory: Inventory) -> None:
        self.reported.append(inventory)
        self._heard.set()

    async def until(self, holds: Callable[[Inventory], bool]) -> Inventory:
        """Wait until an inventory is reported that is as a test expects."""
        async with asyncio.timeout(30):
            while not holds(self.reported[-1]):
                self._heard.clear()
                await self._heard.wait()
        return self.reported[-1]

    async def send(self, *events: Uevent) -> None:
        """Have events received."""
        for event in events:
            self.host.events.put_nowait(event)
        await self.host.events.join()


@contextlib.asynccontextmanager
async def observing(host: Watched) -> AsyncIterator[Running]:
    running = Running(host)
    task = asyncio.create_task(running.observer.run())
    await running.observer.scanned.wait()
    try:
        yield running
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def pci(action: str = "add") -> Uevent:
    return Uevent(action, "/devices/pci0000:00/0000:00:1f.6", {"SUBSYSTEM": "pci"})


async def scans_reach(host: Watched, number: int) -> None:
    async with asyncio.timeout(30):
        while host.scans < number:
            await host.scanned.wait()
            host.scanned.clear()


async def test_a_device_event_makes_it_look_again() -> None:
    async with observing(Watched()) as running:
        await running.send(pci())

        await scans_reach(running.host, 2)


@pytest.mark.parametrize(
    ("event", "everything"),
    [
        (Uevent("change", "/devices/pci0000:00/0000:00:1f.0", {"SUBSYSTEM": "pci"}), False),
        (OVERFLOW, True),
        (Uevent("add", "/devices/platform/dmar/iommu/x", {"SUBSYSTEM": "iommu"}), True),
    ],
)
async def test_an_event_costs_a_look_at_what_it_concerns(event: Uevent, everything: bool) -> None:
    host = Watched("a2")
    async with observing(host) as running:
        host.paths.clear()
        await running.send(event)
        await scans_reach(host, 2)
        async with running.observer._scanning:
            read = list(host.paths)

    assert any("/0000:00:02.0/" in path for path in read) == everything


async def test_what_an_event_tells_of_is_reported() -> None:
    host = Watched("a2")
    async with observing(host) as running:
        disk = next(
            one.address
            for one in running.reported[-1].functions
            if one.class_code.startswith("0108")
        )
        path = host._host.resolve(f"/sys/bus/pci/devices/{disk}")
        host._host.unplug(path)
        await running.send(Uevent("remove", path.removeprefix("/sys"), {"SUBSYSTEM": "pci"}))
        await running.until(lambda inventory: inventory.function(disk) is None)


async def test_an_event_about_a_vgpu_costs_a_look_at_its_gpu_alone() -> None:
    host = Watched("a2")
    async with observing(host) as running:
        await running.send(make_vgpu(host, running))
        await running.until(_carries)

    assert host.scans == 1


async def test_what_a_plan_does_to_its_card_is_reported_when_it_has_ended() -> None:
    host = Watched("a2")
    async with observing(host) as running:
        card = running.reported[-1].vgpus[0].parent
        with running.locks.on(card, ("VGPUDevice", "one"), lambda: None):
            await running.send(make_vgpu(host, running))
            await running.observer._look()
            meanwhile = running.reported[-1]
        await running.until(_carries)

    assert not _carries(meanwhile)
    assert host.scans == 1


def make_vgpu(host: Watched, running: Running) -> Uevent:
    """Make a vGPU; the event that tells of it."""
    vgpu = running.reported[0].vgpus[0]
    path = f"/sys/bus/pci/devices/{vgpu.address}"
    kind, uuid = vgpu.creatable[0].id, "6f1a1b7c-2f0e-4f0c-9f3f-0d9b1b1c1d1e"
    host._host.write(f"{path}/mdev_supported_types/{kind}/create", uuid)
    device = f"{host._host.resolve(path).removeprefix('/sys')}/{uuid}"
    return Uevent("add", device, {"SUBSYSTEM": "mdev"})


def _carries(inventory: Inventory) -> bool:
    return any(vgpu.configured is not None for vgpu in inventory.vgpus)


async def test_lost_events_make_it_look_again() -> None:
    async with observing(Watched()) as running:
        await running.send(OVERFLOW)

        await scans_reach(running.host, 2)


@pytest.mark.parametrize(
    "event",
    [
        Uevent("add", "/devices/virtual/net/veth1", {"SUBSYSTEM": "net"}),
        Uevent("change", "/devices/virtual/block/loop3", {"SUBSYSTEM": "block"}),
        Uevent("add", "/module/foo", {"SUBSYSTEM": "module"}),
    ],
)
async def test_what_cannot_change_an_inventory_costs_nothing(event: Uevent) -> None:
    async with observing(Watched()) as running:
        await running.send(*[event] * 50)
        before = running.host.scans
        await running.send(pci())
        await scans_reach(running.host, before + 1)

        assert running.host.scans == 2


async def test_a_storm_costs_few_scans() -> None:
    async with observing(Watched()) as running:
        await running.send(*[pci()] * 1000)
        await scans_reach(running.host, 2)

        assert running.host.scans <= 4


async def test_listeners_hear_only_of_changes() -> None:
    async with observing(Watched()) as running:
        await running.send(pci())
        await scans_reach(running.host, 2)
        await running.observer.rescan()

        assert len(running.reported) == 1


async def test_without_events_it_says_why() -> None:
    async with observing(Watched(unavailable="another user namespace")) as running:
        assert running.observer.uevents_unavailable == "another user namespace"
        assert running.observer.inventory is not None


async def test_between_two_listeners_others_have_their_turn() -> None:
    loop = asyncio.get_running_loop()
    heard: list[str] = []
    async with observing(Watched()) as running:
        running.observer.inventory = None
        running.observer.subscribe(lambda _: loop.call_soon(heard.append, "other work"))
        running.observer.subscribe(lambda _: heard.append("listener"))
        await running.observer.rescan()

    assert heard == ["other work", "listener"]
