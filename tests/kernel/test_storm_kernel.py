"""A storm of kernel events: more than the socket holds, and a change in it that counts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.controllers.gpu_locks import GpuLocks
from laneway.controllers.metrics import AgentMetrics, MetricFamilies
from laneway.controllers.observing.observer import Observer
from laneway.core.pci import PciAddress
from laneway.host import uevents
from laneway.host.hardware import Hardware

EVENTS = 2000
_STORM = """
for _ in $(seq "$2"); do echo change >"$1"; done
echo "$3" >"${1%/*}/driver/unbind"
for _ in $(seq 100); do echo change >"$1"; done
"""


async def test_a_change_within_a_storm_of_events_is_seen_and_costs_few_scans(
    rig: str, node: Hardware, pf: PciAddress, with_vfs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if rig == "mdev":
        pytest.skip("events are the kernel's, whatever the framework")
    monkeypatch.setattr(uevents, "_BUFFER", 4096)  # it overflows, whatever the pace
    scans = 0

    class Counting(AgentMetrics):
        def scanned(self, seconds: float) -> None:
            nonlocal scans
            scans += 1
            super().scanned(seconds)

    observer = Observer(node, GpuLocks(), Counting(MetricFamilies(), "node"), rescan_seconds=3600)
    seen = asyncio.Event()
    vf = str(pf)[:-1] + "4"

    def look(inventory: Any) -> None:
        if inventory.function(PciAddress.parse(vf)).driver == "":
            seen.set()

    observer.subscribe(look)
    running = asyncio.create_task(observer.run())
    await observer.scanned.wait()
    scans = 0
    path = f"/sys/bus/pci/devices/{vf}/uevent"
    storm = await asyncio.create_subprocess_exec(
        "bash", "-c", _STORM, "storm", path, str(EVENTS), vf
    )
    async with asyncio.timeout(120):
        assert await storm.wait() == 0
        await seen.wait()
    running.cancel()
    node.host.write("/sys/bus/pci/drivers/nvidia/bind", vf)
    assert scans < EVENTS / 50
