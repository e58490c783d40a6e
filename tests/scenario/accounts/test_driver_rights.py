"""The manager may replace the driver toolkit's pods where there is one, and no other pods."""

from __future__ import annotations

import pytest

from support.accounts import MANAGER, Installed, may, right
from support.chart import TOOLKIT

NEEDED = (
    "get daemonsets.apps harvester-system/nvidia-driver-runtime",
    "watch daemonsets.apps harvester-system/nvidia-driver-runtime",
    "list pods harvester-system/",
    "delete pods harvester-system/driver-1",
)
TOO_MUCH = (
    "get daemonsets.apps harvester-system/laneway-agent",
    "list daemonsets.apps harvester-system/",
    "patch daemonsets.apps harvester-system/nvidia-driver-runtime",
    "delete daemonsets.apps harvester-system/nvidia-driver-runtime",
    "delete pods default/driver-1",
    "deletecollection pods harvester-system/",
    "create pods harvester-system/",
    "patch pods harvester-system/driver-1",
)


@pytest.mark.realapi
async def test_with_a_toolkit(chart: Installed) -> None:
    await chart.install({"driverToolkit": TOOLKIT})
    async with await chart.acting(MANAGER) as client:
        for one in NEEDED:
            await chart.granted(client, right(one))
        assert not [one for one in TOO_MUCH if await may(client, right(one))]


@pytest.mark.realapi
async def test_without(chart: Installed) -> None:
    await chart.install()
    async with await chart.acting(MANAGER) as client:
        await chart.granted(client, right("list pods harvester-system/"))
        assert not [
            one
            for one in (*TOO_MUCH, "delete pods harvester-system/driver-1")
            if await may(client, right(one))
        ]
