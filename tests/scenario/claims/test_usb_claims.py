"""A claimed USB device is QEMU's to open, keeps its name when plugged in again, and comes back."""

from __future__ import annotations

import errno
from typing import Any

import msgspec
import pytest

from laneway.api import USBDevice, USBDeviceClaim, find_condition
from laneway.core import keys
from laneway.core.claims.usb_access import QEMU
from laneway.kube.resource import served

STICK = "node1-0781-5583-001004"
HUB = "node1-1d6b-0107-001002"
PORT = "/sys/bus/usb/devices/1-3"
NODE = "/dev/bus/usb/001/004"


def said(obj: Any, what: str) -> str:
    found = find_condition(obj.status.conditions, what)
    return found.status if found else ""


async def claim(cluster: Any, name: str) -> Any:
    return await cluster.client.create(
        served(USBDeviceClaim),
        {
            "apiVersion": "devices.harvesterhci.io/v1beta1",
            "kind": "USBDeviceClaim",
            "metadata": {"name": name},
            "spec": {"userName": "kim"},
        },
    )


async def bound(cluster: Any, name: str = STICK) -> Any:
    return await cluster.until(
        USBDeviceClaim, name, lambda one: one is not None and said(one, "Bound") == "True"
    )


async def gone(cluster: Any, cls: type[Any], name: str) -> None:
    await cluster.until(cls, name, lambda one: one is None)


def renumbered(blocks: list[Any], number: int) -> list[Any]:
    """What was unplugged, as it comes back with another number on its bus."""

    def changed(block: Any) -> Any:
        if "DEVNUM" not in block.properties:
            return block
        properties = {**block.properties, "DEVNUM": f"{number:03d}"}
        properties["DEVNAME"] = f"bus/usb/001/{number:03d}"
        attributes = {**block.attributes, "devnum": f"{number}\n".encode()}
        node = f"bus/usb/001/{number:03d}"
        return msgspec.structs.replace(
            block, properties=properties, attributes=attributes, node=node
        )

    return [changed(block) for block in blocks]


async def test_a_claim_gives_the_node_to_qemu_and_its_end_releases_it(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    before = host.owner(NODE)
    await claim(cluster, STICK)
    claimed = await bound(cluster)
    assert host.owner(NODE) == QEMU != before
    assert (claimed.status.node_name, claimed.status.port) == ("node1", "1-3")
    assert list(claimed.metadata.finalizers) == [keys.FINALIZER_USB_CLAIM]
    await cluster.until(USBDevice, STICK, lambda one: one.status.enabled)
    await cluster.client.delete(served(USBDeviceClaim), STICK)
    await gone(cluster, USBDeviceClaim, STICK)
    assert host.owner(NODE) == before
    await cluster.until(USBDevice, STICK, lambda one: not one.status.enabled)


async def test_a_device_that_is_pulled_out_is_waited_for_and_known_again(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    await bound(cluster)
    pulled = host.unplug(PORT)
    device = await cluster.until(USBDevice, STICK, lambda one: one.status.status == "orphaned")
    assert "1-3" in device.status.message
    await cluster.answer(STICK, "DeviceNotFound", USBDeviceClaim)
    host.plug(renumbered(pulled, 9))
    claimed = await bound(cluster)
    assert claimed.status.device_path == "/dev/bus/usb/001/009"
    assert host.owner("/dev/bus/usb/001/009") == QEMU
    device = await cluster.until(USBDevice, STICK, lambda one: one.status.status == "")
    assert device.status.device_path == "/dev/bus/usb/001/009"
    assert "node1-0781-5583-001009" not in await cluster.names(USBDevice)


@pytest.mark.slow
async def test_a_claim_whose_device_is_away_can_go(cluster: Any, simulated: Any) -> None:
    host = simulated("plain", "node1")
    agent = await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    await bound(cluster)
    host.unplug(PORT)
    await cluster.answer(STICK, "DeviceNotFound", USBDeviceClaim)
    await cluster.client.delete(served(USBDeviceClaim), STICK)
    await gone(cluster, USBDeviceClaim, STICK)
    await gone(cluster, USBDevice, STICK)
    await cluster.quiet(agent)
    assert agent.hardware.state.usb_originals == {}


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (HUB, "DeviceUnusable"),
        ("node1-dead-beef-001099", "DeviceNotFound"),
    ],
)
async def test_what_cannot_be_given_away_is_refused(
    cluster: Any, simulated: Any, name: str, reason: str
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    await claim(cluster, name)
    claimed = await cluster.answer(name, reason, USBDeviceClaim)
    assert said(claimed, "Bound") == "False"
    assert not claimed.metadata.finalizers
    await cluster.client.delete(served(USBDeviceClaim), name)
    await gone(cluster, USBDeviceClaim, name)


async def test_a_claim_waits_while_the_device_is_open(
    cluster: Any, simulated: Any, watchful: None
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    before = host.owner(NODE)
    await claim(cluster, STICK)
    await bound(cluster)
    machine = host.hold(NODE)
    await cluster.client.delete(served(USBDeviceClaim), STICK)
    held = await cluster.until(
        USBDeviceClaim, STICK, lambda one: cluster.message(one).startswith("1-3 is in use")
    )
    assert "qemu-system-x86" in cluster.message(held)
    assert host.owner(NODE) == QEMU
    machine.release()
    await gone(cluster, USBDeviceClaim, STICK)
    assert host.owner(NODE) == before


async def test_a_claim_of_another_node_is_left_alone(cluster: Any, simulated: Any) -> None:
    agent = await cluster.start_agent("node1", simulated("plain", "node1"))
    made = await claim(cluster, "node2-0781-5583-001004")
    await cluster.quiet(agent)
    again = await cluster.get(USBDeviceClaim, made.metadata.name)
    assert again.metadata.resource_version == made.metadata.resource_version


@pytest.mark.slow
async def test_a_controller_is_not_given_away_under_a_claimed_device(
    cluster: Any, claims: Any, simulated: Any
) -> None:
    host = simulated("plain", "node1")
    await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    await bound(cluster)
    await claims.make("0000:00:14.0")
    whole = await claims.answer("0000:00:14.0", "UsbDevicesClaimed")
    assert STICK in cluster.message(whole)
    await cluster.client.delete(served(USBDeviceClaim), STICK)
    await claims.bound("0000:00:14.0")
    await gone(cluster, USBDevice, STICK)


async def test_an_enabled_device_stays_so_whatever_is_looked_at(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("plain", "node1")
    agent = await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    before = await cluster.until(USBDevice, STICK, lambda one: one.status.enabled)
    await agent.observer.rescan()
    await cluster.quiet(agent)
    await cluster.stop_agent(agent)
    again = await cluster.start_agent("node1", host)
    await cluster.quiet(again)
    after = await cluster.get(USBDevice, STICK)
    assert after.status.enabled
    assert after.metadata.resource_version == before.metadata.resource_version


class Unreadable:
    """A simulated host on which an attribute of the device cannot be read while `failing`."""

    def __init__(self, host: Any, attribute: str = "serial") -> None:
        self._host = host
        self._end = f"/1-3/{attribute}"
        self.failing = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    def read(self, path: str) -> bytes:
        if self.failing and path.endswith(self._end):
            raise OSError(errno.EIO, "Input/output error", path)
        content: bytes = self._host.read(path)
        return content


async def test_a_device_that_cannot_be_read_stays_claimed_until_it_can(
    cluster: Any, simulated: Any, impatient: None
) -> None:
    host = Unreadable(simulated("plain", "node1"))
    before = host.owner(NODE)
    agent = await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    claimed = await bound(cluster)
    host.failing = True
    await agent.observer.rescan()
    await cluster.client.delete(served(USBDeviceClaim), STICK)
    reported = await cluster.answer(STICK, "ReadFailed", USBDeviceClaim)
    assert "serial: cannot be read" in cluster.message(reported)
    assert (reported.status.port, reported.status.serial) == (
        claimed.status.port,
        claimed.status.serial,
    )
    assert host.owner(NODE) == QEMU
    host.failing = False
    await gone(cluster, USBDeviceClaim, STICK)
    assert host.owner(NODE) == before


async def test_a_device_of_which_not_everything_can_be_read_stays_of_use(
    cluster: Any, simulated: Any, impatient: None
) -> None:
    host = Unreadable(simulated("plain", "node1"), "product")
    agent = await cluster.start_agent("node1", host)
    await claim(cluster, STICK)
    await bound(cluster)
    await cluster.until(USBDevice, STICK, lambda one: one.status.enabled)
    host.failing = True
    await agent.observer.rescan()
    await cluster.answer(STICK, "ReadFailed", USBDeviceClaim)
    spoilt = {"status": {"description": "spoilt"}}
    await cluster.client.patch(served(USBDevice), STICK, spoilt, subresource="status")
    shown = await cluster.until(USBDevice, STICK, lambda one: one.status.description != "spoilt")
    assert shown.status.enabled
