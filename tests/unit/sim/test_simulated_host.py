"""What happens on a simulated host is announced, and it can be read while it changes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from laneway.core.kernel.uevent import OVERFLOW, Uevent
from laneway.sim import listener
from laneway.sim.dump import Block
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

VF = "/sys/bus/pci/devices/0000:08:00.4"
GPU = "/sys/bus/pci/devices/0000:08:00.0"
CREATE = f"{VF}/mdev_supported_types/nvidia-746/create"
UUID = "6a8f7f4e-9d3e-4f4e-8a52-3f0a4b8f9a01"
REMOVE = f"/sys/bus/mdev/devices/{UUID}/remove"


@pytest.fixture
def a2() -> SimulatedHost:
    return build(parse_spec("a2"), "node")


async def take(events: AsyncIterator[Uevent], count: int) -> list[tuple[str, str]]:
    async with asyncio.timeout(10):
        found = [await anext(events) for _ in range(count)]
    return [(event.action, event.devpath.rpartition("/")[2]) for event in found]


async def test_a_vgpu_is_announced_as_it_comes_and_goes(a2: SimulatedHost) -> None:
    async with a2.uevents() as events:
        a2.write(CREATE, UUID)
        group = a2.resolve(f"/sys/bus/mdev/devices/{UUID}/iommu_group").rpartition("/")[2]
        a2.write(REMOVE, "1")
        assert await take(events, 6) == [
            ("add", UUID),
            ("add", group),
            ("bind", UUID),
            ("remove", group),
            ("unbind", UUID),
            ("remove", UUID),
        ]


async def test_an_event_has_the_properties_of_a_kernel_message(a2: SimulatedHost) -> None:
    async with a2.uevents() as events:
        a2.write(CREATE, UUID)
        event = await anext(events)
    assert event.subsystem == "mdev"
    assert event.properties["ACTION"] == "add"
    assert event.properties["DEVPATH"] == event.devpath
    assert event.devpath.startswith("/devices/pci0000:00/")
    assert int(event.properties["SEQNUM"]) > 0


async def test_writes_from_another_thread_are_announced_in_order(a2: SimulatedHost) -> None:
    def life() -> None:
        for _ in range(50):
            a2.write(CREATE, UUID)
            a2.write(REMOVE, "1")

    async with a2.uevents() as events, a2.uevents() as others:
        await asyncio.to_thread(life)
        once = [action for action, name in await take(events, 300) if name == UUID]
        assert once == ["add", "bind", "unbind", "remove"] * 50
        assert len(await take(others, 300)) == 300


async def test_lost_events_are_reported(a2: SimulatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_MAX_PENDING", 5)
    async with a2.uevents() as events:
        a2.write(CREATE, UUID)
        a2.write(REMOVE, "1")
        await asyncio.sleep(0)  # the loop delivers what was announced
        assert await anext(events) == OVERFLOW


def test_a_listener_whose_loop_has_ended_is_no_obstacle(a2: SimulatedHost) -> None:
    context = a2.uevents()

    async def listen() -> None:
        await context.__aenter__()

    loop = asyncio.new_event_loop()
    loop.run_until_complete(listen())
    loop.close()
    a2.write(CREATE, UUID)
    assert a2.exists(f"{VF}/{UUID}")


async def test_an_unplugged_gpu_takes_its_functions_and_vgpus_with_it(a2: SimulatedHost) -> None:
    a2.write(CREATE, UUID)
    async with a2.uevents() as events:
        gone = a2.unplug(GPU)
        removed = await take(events, 3 + 3 * 16 + 2)
    assert len(gone) == 17
    assert removed[-1] == ("remove", "0000:08:00.0")
    assert ("remove", "0000:08:02.3") in removed
    assert removed.index(("remove", UUID)) < removed.index(("remove", "0000:08:00.4"))
    for path in (GPU, VF):
        assert not a2.exists(path)
    for directory in ("/sys/class/mdev_bus", "/sys/class/vfio", "/sys/bus/mdev/devices"):
        assert a2.names(directory) == []

    async with a2.uevents() as events:
        a2.plug(gone)
        assert (await take(events, 2)) == [("add", "0000:08:00.0"), ("bind", "0000:08:00.0")]
    assert not a2.exists(f"{VF}/{UUID}")
    assert a2.read(f"{VF}/mdev_supported_types/nvidia-747/available_instances") == b"1\n"
    a2.write(CREATE, UUID)


async def test_one_function_can_come_and_go(
    a2: SimulatedHost, host_files: Callable[[SimulatedHost], dict[str, str | bytes]]
) -> None:
    before = host_files(a2)
    gone = a2.unplug("/sys/bus/usb/devices/1-3")
    assert [block.path.rpartition("/")[2] for block in gone] == ["1-3", "1-3:1.0"]
    assert not a2.exists("/dev/bus/usb/001/004")
    a2.plug(gone)
    assert host_files(a2) == before


def test_what_is_not_there_cannot_be_unplugged(a2: SimulatedHost) -> None:
    with pytest.raises(FileNotFoundError):
        a2.unplug("/sys/bus/pci/devices/0000:ff:00.0")


def test_a_new_device_can_be_plugged_in(a2: SimulatedHost) -> None:
    a2.plug([Block(path="/devices/virtual/net/new", properties={"SUBSYSTEM": "net"})])
    assert a2.resolve("/sys/class/net/new") == "/sys/devices/virtual/net/new"


@pytest.fixture
def busy_threads() -> Iterator[None]:
    """Threads take turns far more often than usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_readers_see_the_host_before_or_after_a_write_and_nothing_between(
    a2: SimulatedHost, busy_threads: None
) -> None:
    a2.write(CREATE, UUID)
    complete = set(a2.names(f"{VF}/{UUID}"))
    stop = threading.Event()
    oddities: list[object] = []

    def look() -> None:
        while not stop.is_set():
            try:
                found = set(a2.names(f"{VF}/{UUID}"))
            except FileNotFoundError:
                continue
            if found != complete:
                oddities.append(found)

    reader = threading.Thread(target=look)
    reader.start()
    for _ in range(200):
        a2.write(REMOVE, "1")
        a2.write(CREATE, UUID)
    stop.set()
    reader.join()
    assert oddities == []
