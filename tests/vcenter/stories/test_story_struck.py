"""What could not be is tried again once anything has changed, at whatever moment it did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from support.vcenter import Simulator
from support.vsphere_world import RESERVATIONS

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
HOSTS = ("DC0_C0_H0", "DC0_C0_H1")
CARD = "0000:03:00.0"


def labelled(host: str, label: str) -> Callable[[Any], bool]:
    return lambda all_: any(
        one.status.get("host") == host
        and [device.get("label", "") for device in one.status.get("devices") or ()] == [label]
        for one in all_
    )


async def ordered(vcenter: Simulator, method: str) -> None:
    async with asyncio.timeout(60):
        while not vcenter.tasks(method):  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.05)


async def test_what_changed_while_the_next_host_was_tried_counts(
    world: Any, t4s: Callable[..., Simulator]
) -> None:
    vcenter = t4s({host: [""] for host in HOSTS}, drs=False)
    await world.site(vcenter)
    vcenter.fail("PowerOnVM_Task", "InsufficientHostCapacityFault", "Not here.", times=2)
    vcenter.hold("RelocateVM_Task")
    await world.pool("workers", T4)
    await ordered(vcenter, "RelocateVM_Task")
    [page] = [page async for page in world.client.list(RESERVATIONS)]
    [reserved] = map(RESERVATIONS.decode, page.items)  # an informer may be behind
    # One host is struck, and the machine is on its way to the other.
    [excluded] = set(HOSTS) - {reserved.spec["hostName"]}
    vcenter.change_device(excluded, CARD, label="gold")
    await world.hosts.until(labelled(excluded, "gold"))
    vcenter.release("RelocateVM_Task")
    await world.ready("workers", 1)
    [vm] = [one for name, one in vcenter.vms().items() if name.startswith("workers")]
    assert vm["host"] == excluded


@pytest.mark.parametrize(
    ("method", "fault"),
    [
        ("PowerOnVM_Task", "InsufficientHostCapacityFault"),  # of the host
        ("ReconfigVM_Task", "NotSupported"),  # of the order
    ],
)
async def test_what_changed_while_it_was_tried_counts(
    world: Any, t4s: Callable[..., Simulator], method: str, fault: str
) -> None:
    vcenter = t4s({HOSTS[0]: [""]})
    await world.site(vcenter)
    vcenter.fail(method, fault, "Not now.")
    vcenter.hold(method)
    await world.pool("workers", T4)
    await ordered(vcenter, method)
    vcenter.change_device(HOSTS[0], CARD, label="gold")
    await world.hosts.until(labelled(HOSTS[0], "gold"))
    vcenter.release(method)
    await world.ready("workers", 1)
