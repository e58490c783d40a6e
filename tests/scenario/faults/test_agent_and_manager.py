"""Agent and manager come back by themselves from what goes wrong between them and the API server.

Each fault begins before or while a user changes something. The desired state is reached all the
same, the hardware is written to exactly as often as without a fault, and no object twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.fault_proxy import Asked, FaultProxy

HARDWARE = {
    ("/sys/bus/pci/devices/0000:08:00.4/nvidia/current_vgpu_type", "747"): 1,
    ("/sys/bus/pci/drivers/igb/unbind", "0000:04:00.1"): 1,
    ("/sys/bus/pci/devices/0000:04:00.1/driver_override", "vfio-pci\n"): 1,
    ("/sys/bus/pci/drivers/vfio-pci/bind", "0000:04:00.1"): 1,
}

Break = Callable[[Any, FaultProxy], Awaitable[None]]


async def connections_are_reset(site: Any, line: FaultProxy) -> None:
    line.cut()
    await site.change()
    line.cut()


async def connections_are_half_open(site: Any, line: FaultProxy) -> None:
    line.stick()
    await site.change()
    await site.time.passes(200)


async def packets_are_dropped(site: Any, line: FaultProxy) -> None:
    line.stick()
    line.swallows = True
    await site.change()
    await site.time.passes(120)
    line.heal()
    await site.time.passes(200)


async def the_server_is_away(site: Any, line: FaultProxy) -> None:
    await line.stop()
    await site.change()
    await site.time.passes(120)
    await line.start()
    await site.time.passes(40)


async def answers_come_slowly(site: Any, line: FaultProxy) -> None:
    line.slow = True
    line.cut()
    await site.change()


async def answers_to_writes_are_lost(site: Any, line: FaultProxy) -> None:
    line.lose("create", times=2)
    line.lose("patch", times=4)
    await site.change()


async def the_history_is_compacted(site: Any, line: FaultProxy) -> None:
    line.page = 5
    watches = line.refuse(410, "watch", times=12)
    lists = line.refuse(410, "list", times=3, holds=lambda one: "continue" in one.query)
    await site.change()
    line.cut()
    await site.time.passes(20)
    assert (len(watches.hits), bool(lists.hits)) == (12, True)


async def requests_are_put_off(site: Any, line: FaultProxy) -> None:
    line.cut()
    line.refuse(429, times=12, Retry_After="2", X_Kubernetes_PF_FlowSchema_UID="1")
    await site.change()
    await site.time.passes(60)


@pytest.mark.parametrize("role", ["agent", "manager"])
@pytest.mark.parametrize(
    "happens",
    [
        connections_are_reset,
        connections_are_half_open,
        packets_are_dropped,
        the_server_is_away,
        answers_come_slowly,
        answers_to_writes_are_lost,
        the_history_is_compacted,
        requests_are_put_off,
    ],
)
async def test_the_desired_state_is_reached_and_nothing_written_twice(
    site: Any, happens: Break, role: str
) -> None:
    line = getattr(site, role)
    await happens(site, line)

    await site.reached()
    await site.rest()
    assert Counter((one.path, one.data) for one in site.hardware) == HARDWARE
    for one in (site.agent, site.manager):
        lost = Counter(asked.where for asked in one.writes if not asked.answered)
        again = Counter(asked.where for asked in one.repeated())
        assert again <= lost, "only writes without an answer"
        made = Counter((asked.resource, _name(asked)) for asked in one.writes if _made(asked))
        assert set(made.values()) <= {1}
    written = len(site.writes)
    await site.rest()
    assert len(site.writes) == written, "at rest nothing is written"


def _made(asked: Asked) -> bool:
    return asked.verb == "create" and asked.status == 201


def _name(asked: Asked) -> str:
    return str(asked.json["metadata"]["name"])
