"""A scheduler never allocates from half of a change, wherever an agent is killed in between.

It sees each write. Of two pools one after the other it sees the first, then nothing that is
complete, then the second.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.dra import slices as core
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from support.publishing import (
    OWN,
    SECONDS,
    PoolReader,
    Said,
    has_slices,
    offer,
    publishing,
    said,
    slices,
    until,
)

pytestmark = pytest.mark.realapi

NOTHING = Inventory()
State = tuple[list[Offer], core.Owners]


def cards(count: int, *, paired: bool = False, held: int | None = None) -> State:
    """Some cards; `paired`: two in a group each; `held`: one that a pod has."""
    found = [offer(slot, slot // 2 if paired else slot) for slot in range(count)]
    owner = Owner(namespace="default", pod="vm")
    return found, {} if held is None else {(found[held].resource, found[held].id): owner}


def pool(state: State) -> Said:
    offers, owners = state
    return said(list(core.pool(offers, NOTHING, owners, full=True).parts))


SMALL, TAINTED = cards(2), cards(2, held=1)
LARGE, PAIRED = cards(140), cards(40, paired=True)


@pytest.fixture(autouse=True)
async def _clean(cluster: Any) -> Any:
    """On a server that others use, nothing of this node is there before or stays."""
    if not await has_slices(cluster.client):
        pytest.skip("the API server is older than ResourceSlices")

    async def withdraw() -> None:
        async with publishing(cluster, publish=False):
            await until(cluster, lambda found: not found, OWN)

    await withdraw()
    yield
    await withdraw()


async def test_a_scheduler_sees_whole_pools_only(cluster: Any) -> None:
    states = [SMALL, LARGE, TAINTED, PAIRED, cards(0), PAIRED, SMALL]
    async with PoolReader(cluster.client) as scheduler, publishing(cluster) as publisher:
        for state in states:
            publisher.offered(state[0], NOTHING, state[1])
            await scheduler.until(pool(state))
    assert scheduler.complete == [pool(state) for state in states]
    assert scheduler.generations == sorted(scheduler.generations), "it only goes up"
    assert scheduler.generations[-1] == len(states), "once for a change"
    last = await slices(cluster, OWN)
    assert {it.spec["pool"]["generation"] for it in last} == {len(states)}


async def test_what_is_right_is_not_written_again(cluster: Any) -> None:
    async with PoolReader(cluster.client) as scheduler:
        async with publishing(cluster) as publisher:
            publisher.offered(PAIRED[0], NOTHING, {})
            await scheduler.until(pool(PAIRED))
        async with publishing(cluster) as publisher:
            for offers in (PAIRED[0], PAIRED[0][::-1]):
                publisher.offered(offers, NOTHING, {})
                await publisher.queue.join()
            publisher.offered(SMALL[0], NOTHING, {})
            await scheduler.until(pool(SMALL))
    assert scheduler.complete == [pool(PAIRED), pool(SMALL)]
    assert scheduler.generations[-1] == 2


class Death:
    """An agent dies at its n-th write of a slice: before the server has it, or after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
        self.came = asyncio.Event()
        real = Client.call

        async def call(client: Client, method: str, path: str, *args: Any) -> bytes:
            params = args[0] if args else None
            writes = method != "GET" and "resourceslices" in path
            if not writes or (params or {}).get("dryRun") or self.came.is_set():
                return await real(client, method, path, *args)
            nonlocal number
            number -= 1
            if number == 0 and not after:
                await self._come()
            answer = await real(client, method, path, *args)
            if number == 0:
                await self._come()
            return answer

        monkeypatch.setattr(Client, "call", call)

    async def _come(self) -> None:
        self.came.set()
        await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize("after", [False, True], ids=["unwritten", "written"])
@pytest.mark.parametrize(
    ("before", "then"),
    [
        pytest.param(SMALL, LARGE, id="grows"),
        pytest.param(LARGE, TAINTED, id="shrinks", marks=pytest.mark.slow),
        pytest.param(PAIRED, LARGE, id="loses its counters", marks=pytest.mark.slow),
        pytest.param(TAINTED, SMALL, id="stays as large", marks=pytest.mark.slow),
    ],
)
async def test_an_agent_killed_at_any_write_leaves_no_half_a_pool(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, before: State, then: State, after: bool
) -> None:
    number, died = 0, True
    async with PoolReader(cluster.client) as scheduler:
        while died:
            number += 1
            async with publishing(cluster) as publisher:
                publisher.offered(before[0], NOTHING, before[1])
                await scheduler.until(pool(before))
            scheduler.complete.clear()
            with monkeypatch.context() as patched:
                death = Death(patched, number, after=after)
                async with publishing(cluster) as publisher:
                    publisher.offered(then[0], NOTHING, then[1])
                    died = await first(death.came.wait(), publisher.queue.join())
            async with publishing(cluster) as publisher:
                publisher.offered(then[0], NOTHING, then[1])
                await scheduler.until(pool(then))
            assert scheduler.complete in ([pool(then)], [pool(before), pool(then)])
    assert number > len(pool(then)), "it died at each write, and then at none"
    assert scheduler.generations == sorted(scheduler.generations)


async def first(one: Any, other: Any) -> bool:
    """Whether the first comes before the other."""
    tasks = [asyncio.ensure_future(one), asyncio.ensure_future(other)]
    async with asyncio.timeout(SECONDS):
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    found = tasks[0].done()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return found
