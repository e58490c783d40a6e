"""What an agent costs the API once it has answered: nothing."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from laneway.api import VGPUDevice
from laneway.controllers.timing import Timing
from laneway.core.hardware_change import REASON

VGPU = "node1-000008004"
SIBLING = "node1-000008005"
Q4 = "NVIDIA A2-4Q"
GPU_STATUS = "/apis/devices.harvesterhci.io/v1beta1/sriovgpudevices/node1-000008000/status"


async def events(cluster: Any, name: str) -> list[tuple[str, int]]:
    raw = json.loads(await cluster.client.raw("/api/v1/namespaces/default/events"))
    return [
        (item["reason"], item["count"])
        for item in raw["items"]
        if item["involvedObject"]["name"] == name and item["reason"] != REASON
    ]


async def test_a_refusal_is_one_event_and_a_retry_a_count(cluster, gate):
    cluster.timing = Timing(retry=0.01)
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, "NVIDIA A2-99Q")
    await cluster.answer(VGPU, "ProfileNotOffered")
    await cluster.quiet(agent)
    host.refused = "create"
    await cluster.ask(SIBLING, Q4)
    await cluster.answer(SIBLING, "WriteFailed")
    await host.written(4)
    await cluster.stop_agent(agent)
    await cluster.start_agent("node1", host)

    assert await events(cluster, VGPU) == [("ProfileNotOffered", 1)]
    assert {one for one, _ in await events(cluster, SIBLING)} == {"WriteFailed"}


@pytest.mark.realapi
async def test_at_rest_nothing_is_asked_or_written(cluster, requests, gate):
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.ask(SIBLING, "NVIDIA A2-99Q")
    await cluster.answer(SIBLING, "ProfileNotOffered")
    host.refused = "create"
    await cluster.ask("node1-000008006", Q4)
    await cluster.answer("node1-000008006", "WriteFailed")
    await cluster.quiet(agent)
    requests.clear()
    host.writes.clear()

    for _ in range(3):
        await agent.observer.rescan()
        await cluster.quiet(agent)

    assert requests == []
    assert host.writes == []


@pytest.mark.slow
async def test_a_hundred_impossible_desired_states_cost_nothing_once_they_are_answered(
    cluster, simulated, requests
):
    host = simulated("a100", "node1")
    agent = await cluster.start_agent("node1", host)
    names = sorted(await cluster.names(VGPUDevice))
    for name in names:
        await cluster.ask(name, "NVIDIA A100-99C")
    for name in names:
        await cluster.answer(name, "ProfileNotOffered")
    await cluster.quiet(agent)
    requests.clear()

    await cluster.quiet(agent)

    assert requests == []
    assert len(names) >= 50


@pytest.mark.realapi
async def test_no_write_is_repeated_while_the_watch_lags_behind(cluster, simulated, requests):
    agent = await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.quiet(agent)
    patches = Counter(path for method, path in requests if method == "PATCH")
    requests.clear()
    await cluster.ask(VGPU, Q4)
    await cluster.answer(VGPU, "Configured")
    await cluster.quiet(agent)

    # The GPU is not Ready before its vGPUs are there, and then it is.
    assert patches.pop(GPU_STATUS) <= 2
    assert set(patches.values()) == {1}
    status = ("PATCH", f"/apis/devices.harvesterhci.io/v1beta1/vgpudevices/{VGPU}/status")
    assert requests.count(status) == 2  # InProgress, Configured
