"""The ledger of a process that watches: always that of the objects there are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from laneway.api import CoreNode, PCIDeviceClaim, VGPUDevice
from laneway.controllers.cluster.caches import Caches
from laneway.controllers.ledger.snapshot import look
from laneway.controllers.ledger.source import LedgerSource
from laneway.core.ledger.build import build
from laneway.core.ledger.ledger import Counts, Ledger
from laneway.kube.kubevirt import VIRTUAL_MACHINES
from laneway.kube.pods import PODS
from laneway.kube.resource import served

SECONDS = 60.0


class Watched:
    """A source that runs, and every ledger that it makes."""

    def __init__(self, client: Any) -> None:
        caches = Caches.of(client)
        self.source = LedgerSource(caches, rest=0.0)
        self.made: asyncio.Queue[Ledger] = asyncio.Queue()
        self.source.subscribe(self.made.put_nowait)
        self.work = [informer.run() for informer in caches.all.values()]

    async def until(self, holds: Callable[[Ledger], bool]) -> Ledger:
        async with asyncio.timeout(SECONDS):
            while not holds(ledger := await self.made.get()):
                pass
        return ledger


@pytest.fixture
async def watch(cluster: Any) -> AsyncIterator[Callable[[], Watched]]:
    tasks: list[asyncio.Task[None]] = []

    def start() -> Watched:
        watched = Watched(cluster.client)
        tasks.extend(map(asyncio.create_task, (*watched.work, watched.source.run())))
        return watched

    yield start
    for task in tasks:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def small(ledger: Ledger, objects: Any) -> Counts:
    stock = ledger.stocks.get(("n1", objects.small))
    return stock.counts if stock is not None else Counts()


async def test_every_change_is_followed(objects: Any, watch: Any) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 3)
    watched = watch()
    await watched.until(lambda ledger: small(ledger, objects).free == 3)
    await objects.vm("rests", [objects.small])
    await watched.until(lambda ledger: small(ledger, objects) == Counts(3, reserved=1, free=2))
    await objects.vm("runs", [objects.small], running=True)
    await watched.until(lambda ledger: small(ledger, objects).wanted == 1)
    await objects.instance("runs", [objects.small], "Running", "n1")
    await watched.until(lambda ledger: small(ledger, objects).held == 1)
    await objects.pod("train", objects.small, "n1")
    await watched.until(lambda ledger: small(ledger, objects) == Counts(3, held=2, reserved=1))
    await objects.client.delete(VIRTUAL_MACHINES, "rests", "default")
    await watched.until(lambda ledger: small(ledger, objects).free == 1)
    await objects.status(PODS, "train", phase="Succeeded")
    await watched.until(lambda ledger: small(ledger, objects).free == 2)
    await objects.status(served(VGPUDevice), "n1-000008002", vGPUStatus="")
    await watched.until(lambda ledger: small(ledger, objects).total == 2)
    await objects.claim("n1", "000017000")
    last = await watched.until(lambda ledger: ("n1", objects.card) in ledger.stocks)
    assert last == build((await look(objects.client)).facts)


async def test_who_cannot_wait_sees_what_the_caches_know(objects: Any, watch: Any) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1)
    watched = watch()
    assert watched.source.fresh() is None
    await watched.until(lambda ledger: small(ledger, objects).free == 1)
    caches = watched.source._caches
    await objects.vm("rests", [objects.small])
    async with asyncio.timeout(SECONDS):
        while caches.vms.store.get("rests", "default") is None:  # noqa: ASYNC110 - fills a cache
            await asyncio.sleep(0)
    assert small(watched.source.fresh(), objects).reserved == 1
    assert watched.source.ledger is watched.source.fresh()


async def test_a_heartbeat_makes_no_new_ledger(objects: Any, watch: Any) -> None:
    await objects.node("n1")
    await objects.vgpus("n1", 1)
    watched = watch()
    before = await watched.until(lambda ledger: small(ledger, objects).free == 1)
    informer = watched.source._caches.nodes
    events = informer.counts.events
    for second in range(3):
        ready = {
            "type": "Ready",
            "status": "True",
            "lastHeartbeatTime": f"2026-01-01T00:00:0{second}Z",
        }
        await objects.status(served(CoreNode), "n1", conditions=[ready])
    async with asyncio.timeout(SECONDS):
        while informer.counts.events < events + 3:  # noqa: ASYNC110 - fills a cache
            await asyncio.sleep(0)
    assert watched.source.fresh() is before
    await objects.client.patch(served(CoreNode), "n1", {"spec": {"unschedulable": True}})
    await watched.until(lambda ledger: small(ledger, objects).unhealthy == 1)


async def test_without_kubevirt_the_ledger_is_known(bare: Any, watch: Any) -> None:
    await bare.node("n1")
    await bare.vgpus("n1", 1)
    watched = watch()
    await watched.until(lambda ledger: small(ledger, bare).free == 1)
    assert watched.source.waiting_for() == []


async def test_an_object_that_is_gone_is_no_device_any_more(objects: Any, watch: Any) -> None:
    await objects.node("n1")
    await objects.claim("n1", "000017000")
    watched = watch()
    await watched.until(lambda ledger: ("n1", objects.card) in ledger.stocks)
    await objects.client.delete(served(PCIDeviceClaim), "n1-000017000")
    await watched.until(lambda ledger: not ledger.stocks)
