"""What goes wrong between a role and its API server, each as one story around a user's change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable

from support.fast_time import FastTime
from support.fault_proxy import FaultProxy

Change = Callable[[], Awaitable[None]]
LineFault = Callable[[FaultProxy, Change, FastTime], Awaitable[None]]


async def connections_are_reset(line: FaultProxy, change: Change, _: FastTime) -> None:
    line.cut()
    await change()
    line.cut()


async def connections_are_half_open(line: FaultProxy, change: Change, time: FastTime) -> None:
    line.stick()
    await change()
    await time.passes(200)


async def packets_are_dropped(line: FaultProxy, change: Change, time: FastTime) -> None:
    line.stick()
    line.swallows = True
    await change()
    await time.passes(120)
    line.heal()
    await time.passes(200)


async def the_server_is_away(line: FaultProxy, change: Change, time: FastTime) -> None:
    await line.stop()
    await change()
    await time.passes(120)
    await line.start()
    await time.passes(40)


async def answers_come_slowly(line: FaultProxy, change: Change, time: FastTime) -> None:
    before = len(line.asked)
    line.refuse(410, "watch", "vgpudevices", times=1)
    line.slow = 0.5  # A list of the vGPUs of a card takes a minute so.
    line.cut()
    await change()
    await time.passes(200)
    answered = [one for one in line.asked[before:] if one.status == 200]
    lists = [one.what for one in answered if one.verb == "list"]
    assert len(lists) == len(set(lists)), "each comes to its end"
    line.heal()


async def answers_to_writes_are_lost(line: FaultProxy, change: Change, _: FastTime) -> None:
    line.lose("create", times=2)
    line.lose("patch", times=4)
    await change()


async def the_history_is_compacted(line: FaultProxy, change: Change, time: FastTime) -> None:
    line.page = 5
    watches = line.refuse(410, "watch", times=4)
    line.refuse(410, "list", times=3, holds=lambda one: "continue" in one.query)
    await change()
    line.cut()
    await time.passes(20)
    assert len(watches.hits) == 4


async def requests_are_put_off(line: FaultProxy, change: Change, time: FastTime) -> None:
    line.cut()
    line.refuse(429, times=12, Retry_After="2", X_Kubernetes_PF_FlowSchema_UID="1")
    await change()
    await time.passes(60)


READING = (
    connections_are_reset,
    connections_are_half_open,
    packets_are_dropped,
    the_server_is_away,
    answers_come_slowly,
    the_history_is_compacted,
    requests_are_put_off,
)
"""Those that a role notices that only reads."""
ALL = (*READING, answers_to_writes_are_lost)


def check_writes(line: FaultProxy) -> None:
    """No write was repeated but those without an answer, and nothing was made twice."""
    lost = Counter(asked.where for asked in line.writes if not asked.answered)
    assert Counter(asked.where for asked in line.repeated()) <= lost
    made = Counter(asked.what for asked in line.writes if asked.verb == "create")
    assert set(made.values()) <= {1}
