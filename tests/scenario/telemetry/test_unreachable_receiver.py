"""Work goes on whatever becomes of its traces."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.roles.telemetry import telemetry
from support.otlp_receiver import Receiver, in_thread

VGPU = "node1-000008004"
Q4 = "NVIDIA A2-4Q"


async def test_a_receiver_that_takes_nothing_disturbs_nothing_and_is_told_once(
    cluster: Any, receiver: Receiver, simulated: Any, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.status = 400
    registry = cluster.families.registry
    async with in_thread(telemetry("laneway-agent", registry, endpoint=receiver.url)) as told:
        cluster.tracer = told.tracer
        await cluster.start_agent("node1", simulated("a2", "node1"))
        for profile in (Q4, "NVIDIA A2-8Q"):
            await cluster.ask(VGPU, profile)
            await cluster.answer(VGPU, "Configured")
            await cluster.disable(VGPU)
            await cluster.answer(VGPU, "NotConfigured")
        await receiver.until(lambda: receiver.refused > 0)
    assert cluster.metric("laneway_spans_unsent_total") >= 16
    told_once = [one for one in caplog.messages if "are not accepted" in one]
    assert len(told_once) == 1
    assert f"traces to {receiver.url}" in told_once[0]
    assert "400" in told_once[0]


async def test_an_agent_without_an_endpoint_sends_nothing(
    cluster: Any, receiver: Receiver, simulated: Any
) -> None:
    with telemetry("laneway-agent", cluster.families.registry) as told:
        assert told.tracer is None
        await cluster.start_agent("node1", simulated("a2", "node1"))
        await cluster.ask(VGPU, Q4)
        await cluster.answer(VGPU, "Configured")
    assert cluster.metric("laneway_spans_unsent_total") == 0
