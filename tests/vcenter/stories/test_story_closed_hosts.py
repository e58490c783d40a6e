"""A reservation cannot be used any more: its host was closed before the machine was on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from support.vcenter import Simulator

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
SECONDS = 60.0


async def at_work(vcenter: Simulator, method: str) -> None:
    async with asyncio.timeout(SECONDS):
        while not any(  # noqa: ASYNC110 - vCenter tells a test nothing
            task["state"] == "queued" for task in vcenter.tasks(method)
        ):
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("method", ["CloneVM_Task", "ReconfigVM_Task", "PowerOnVM_Task"])
async def test_a_machine_goes_elsewhere_when_its_host_enters_maintenance(
    world: Any, t4s: Callable[..., Simulator], see: Any, method: str
) -> None:
    vcenter = t4s({"DC0_C0_H0": [""], "DC0_C0_H1": [""]}, drs=False)
    vcenter.hold(method, queued=True)
    await world.site(vcenter)
    await world.pool("workers", T4)
    await at_work(vcenter, method)
    [reserved] = await world.reservations.until(lambda all_: len(all_) == 1)
    vcenter.change_host(reserved.spec["hostName"], maintenance=True)
    vcenter.release()
    await world.ready("workers", 1)
    [vm] = see.made(vcenter).values()
    assert vm["host"] != reserved.spec["hostName"]
    world.exact(vcenter)


async def test_a_machine_says_that_its_host_is_closed_until_it_is_open_again(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": [""]}, drs=False)
    vcenter.hold("PowerOnVM_Task", queued=True)
    await world.site(vcenter)
    await world.pool("workers", T4)
    await at_work(vcenter, "PowerOnVM_Task")
    vcenter.change_host("DC0_C0_H0", maintenance=True)
    await world.hosts.until(lambda all_: any(one.status.get("maintenance") for one in all_))
    vcenter.release()
    [machine] = await world.refused("workers", 1)
    assert "DC0_C0_H0 (in maintenance mode)" in see.said(machine, "PCIDevicesReady")[2]
    vcenter.change_host("DC0_C0_H0", maintenance=False)
    await world.ready("workers", 1)
    assert len(see.made(vcenter)) == 1


async def test_a_vcenter_that_hangs_while_the_manager_changes_is_asked_again(
    world: Any, t4s: Callable[..., Simulator], see: Any
) -> None:
    vcenter = t4s({"DC0_C0_H0": ["", ""]})
    first = await world.site(vcenter)
    await world.pool("workers", T4)
    await world.ready("workers", 1)
    await world.lead()
    os.kill(vcenter.pid, signal.SIGSTOP)
    try:
        await world.scale("workers", 2)
        await world.machines.until(lambda all_: len(all_) == 2)
        await world.kill(first)
    finally:
        os.kill(vcenter.pid, signal.SIGCONT)
    await world.ready("workers", 2)
    assert len(see.made(vcenter)) == 2
    world.exact(vcenter)
