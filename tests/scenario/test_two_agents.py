"""Two agents on one node, as while its DaemonSet is replaced in a hurry."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from laneway.roles import agent as role
from laneway.sim.spec import Spec, build

VGPU = "node1-000008004"


class Reported(logging.Handler):
    """What the agent says of another one."""

    def __init__(self) -> None:
        super().__init__()
        self.reported = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "node1 already has an agent: laneway agent (process" in record.getMessage():
            self.reported.set()


async def test_a_second_agent_waits_until_the_first_has_ended(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role, "ALONE_SECONDS", 0.01)
    host, log = build(Spec("a2"), "node1"), Reported()
    role.log.addHandler(log)
    first = await cluster.start_agent("node1", host)
    second = asyncio.create_task(cluster.start_agent("node1", host))
    async with asyncio.timeout(20):
        await log.reported.wait()
    await cluster.ask(VGPU, "NVIDIA A2-4Q")
    await cluster.answer(VGPU, "Configured")
    assert not second.done()

    await cluster.stop_agent(first)
    await second

    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}
    role.log.removeHandler(log)
