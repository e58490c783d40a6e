"""The inventory over SOAP: what of it only a real connection shows."""

from __future__ import annotations

import asyncio

import pytest

from laneway.vsphere.vcenter import Connection
from laneway.vsphere.vcenter.http import STALL_S, WAIT_S
from support.port_contract.inventory import *  # noqa: F403 - the tests of the port
from support.port_contract.inventory import Followed
from support.vcenter import Simulator


async def test_quiet_times_end_nothing(
    connection: Connection, vcenter: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.vsphere.vcenter.property_collector.WAIT_S", 1)
    followed = Followed(connection)
    await followed.next()
    asked = vcenter.requests("WaitForUpdatesEx")
    news = asyncio.create_task(followed.next())
    while vcenter.requests("WaitForUpdatesEx") < asked + 3:
        await connection.about()
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    assert (await news).hosts[0].maintenance
    await followed.close()


def test_vcenter_answers_a_wait_before_its_silence_counts() -> None:
    assert WAIT_S < STALL_S


async def test_a_watch_that_stops_leaves_nothing_behind(
    connection: Connection, vcenter: Simulator
) -> None:
    followed = Followed(connection)
    await followed.next()
    await followed.close()
    assert vcenter.requests("DestroyPropertyCollector") == 1
    assert vcenter.requests("DestroyView") >= 2
