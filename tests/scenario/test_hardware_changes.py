"""Events about what was done to hardware: each plan has one, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.controllers import hardware_changes
from laneway.controllers.hardware_changes import HardwareChanges
from laneway.core.requested import Origin
from laneway.host.plans.audit import Ended, Entry, Outcome
from laneway.views.activity import Row
from support.activity import writes

VGPU = "node1-000008004"


def ended(number: int, outcome: Outcome = "done", error: str = "", *, name: str = VGPU) -> Ended:
    """A plan of one step."""
    plan, words = f"plan-{number}", f"step of plan {number}" if outcome == "done" else "a step"
    entry = Entry(
        time="2030-01-01T00:00:00.000+00:00",
        plan=plan,
        actor="laneway agent",
        reason="",
        outcome=outcome,
        words=words,
        error=error,
    )
    whole: Outcome = "finished" if outcome in ("done", "found done") else "closed"
    origin = Origin("VGPUDevice", name, "uid", "anna")
    return Ended(plan, "laneway agent", "", origin, (entry,), whole, error, recovered=False)


@contextlib.asynccontextmanager
async def telling(cluster: Any) -> AsyncIterator[HardwareChanges]:
    changes = HardwareChanges(cluster.client, "laneway-agent", "node1")
    task = asyncio.create_task(changes.run())
    try:
        yield changes
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def told(cluster: Any, number: int) -> list[Row]:
    return await writes(cluster.client, lambda found: len(found) >= number)


async def test_events_wait_for_the_api_server_and_the_oldest_make_room(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if cluster.server is None:
        pytest.skip("this test stops its API server, and the real one serves all tests")
    monkeypatch.setattr(hardware_changes, "BUFFER", 3)
    monkeypatch.setattr(hardware_changes, "PATIENCE_SECONDS", (0.01, 0.02))
    await cluster.server.stop()
    async with telling(cluster) as changes:
        for number in range(5):
            changes.tell(ended(number))
        await cluster.server.start()
        found = await told(cluster, 3)
    assert [row.steps[0].words for row in found] == [f"step of plan {n}" for n in (4, 3, 2)]
    assert changes.dropped == 2


async def test_many_plans_for_one_object_have_an_event_each(cluster: Any) -> None:
    async with telling(cluster) as changes:
        for number in range(60):
            changes.tell(ended(number))
        assert len(await told(cluster, 60)) == 60


async def test_an_attempt_that_wrote_nothing_is_told_once_until_it_fails_otherwise(
    cluster: Any,
) -> None:
    async with telling(cluster) as changes:
        for number, error in enumerate(("busy", "busy", "gone", "gone", "busy")):
            changes.tell(ended(number, "failed", error))
        changes.tell(ended(7, "found done"))  # Nothing was written, and nothing went wrong.
        changes.tell(ended(8, "failed", "busy", name="node1-000008005"))
        found = await told(cluster, 4)
    assert [(row.name[-1], row.steps[0].error) for row in reversed(found)] == [
        ("4", "busy"),
        ("4", "gone"),
        ("4", "busy"),
        ("5", "busy"),
    ]


async def test_a_plan_that_a_crash_interrupted_is_told_by_the_next_agent(
    cluster: Any, simulated: Any
) -> None:
    host = simulated("a2", "node1")
    agent = await cluster.start_agent("node1", host)
    host.faults.kill_at(1, "after")
    await cluster.ask(VGPU, "NVIDIA A2-4Q")
    await cluster.died(agent)
    host.restart()
    await cluster.start_agent("node1", host)

    (row,) = await told(cluster, 1)

    assert row.name == VGPU
    assert row.change is not None
    assert row.change.recovered
    assert [step.outcome for step in row.steps] == ["done"]
    assert row.text.startswith("An interrupted plan was ended.")
