"""vGPUs whose UUIDs an older version derived from addresses."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import VGPUDevice
from laneway.core.vgpu import desired as core
from laneway.host.scan import scan

VGPU, ADDRESS = "node1-000008004", "0000:08:00.4"
Q4 = "NVIDIA A2-4Q"


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """As an older version does it, until this is undone."""
    monkeypatch.setattr(core, "mdev_uuid", core._uuid_of_place)
    return monkeypatch


async def test_what_runs_keeps_its_uuid_and_stays_ours(
    cluster: Any, simulated: Any, older: pytest.MonkeyPatch
) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    await cluster.ask(VGPU, Q4)
    before = await cluster.answer(VGPU, "Configured")
    await cluster.stop_agent(agent)
    older.undo()

    agent = await cluster.start_agent("node1", host)
    await cluster.quiet(agent)

    after = await cluster.get(VGPUDevice, VGPU)
    assert cluster.reason(after) == "Configured"
    assert after.status.uuid == before.status.uuid
    function = next(one for one in scan(host).vgpus if str(one.address) == ADDRESS)
    assert function.configured.uuid == before.status.uuid != core.mdev_uuid("node1", function)

    await cluster.disable(VGPU)
    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}


@pytest.mark.slow
async def test_what_an_interrupted_attempt_of_it_made_counts_as_ours(
    cluster: Any, gate: Any, older: pytest.MonkeyPatch
) -> None:
    host = gate("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    host.held = "create"
    await cluster.ask(VGPU, Q4)
    await host.written(1)
    await cluster.stop_agent(agent)
    older.undo()
    host.open.set()
    await cluster.disable(VGPU)

    await cluster.start_agent("node1", host)

    await cluster.answer(VGPU, "NotConfigured")
    assert cluster.carried(host) == {}
