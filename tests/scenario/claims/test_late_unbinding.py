"""A driver that releases a device only after the time limit gets it back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.host.plans.execute import execute
from support.plans import BRIEF

GPU, AUDIO = "0000:08:00.0", "0000:08:00.1"


@pytest.fixture
async def late(
    cluster: Any, claims: Any, simulated: Any, driver: Any, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """A host whose GPU has lost its driver to a claim that reports that this has failed."""
    host = simulated("workstation", "node1")
    await cluster.start_agent("node1", host)
    unbind = f"/sys/bus/pci/drivers/{driver(host, GPU)}/unbind"
    host.faults.block(unbind)
    # Not so short that a busy machine gives up another write.
    monkeypatch.setitem(execute.__kwdefaults__, "limits", BRIEF._replace(write_seconds=1.0))
    await claims.make(GPU)
    await claims.answer(GPU, "WriteFailed")
    monkeypatch.setitem(execute.__kwdefaults__, "limits", BRIEF)
    host.faults.unblock(unbind)
    async with asyncio.timeout(60):
        while driver(host, GPU):  # noqa: ASYNC110 - the thread that writes announces nothing
            await asyncio.sleep(0.01)
    return host


async def test_after_the_next_claim_of_the_group(
    claims: Any, simulated: Any, driver: Any, late: Any
) -> None:
    before = {one: driver(simulated("workstation", "node1"), one) for one in (GPU, AUDIO)}
    await claims.make(AUDIO)
    await claims.bound(AUDIO)
    for one in (GPU, AUDIO):
        await claims.delete(one)
    for one in (GPU, AUDIO):
        await claims.gone(one)
    assert {one: driver(late, one) for one in (GPU, AUDIO)} == before


async def test_without_another_claim(claims: Any, simulated: Any, driver: Any, late: Any) -> None:
    await claims.delete(GPU)
    await claims.gone(GPU)
    assert driver(late, GPU) == driver(simulated("workstation", "node1"), GPU)
