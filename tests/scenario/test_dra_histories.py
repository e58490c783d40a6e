"""Agents come and go, slices are switched on and off: no device is with a pod and a claim as well.

A kubelet gives pods what the plugins of the agent that runs now would offer; a scheduler gives
claims what the slices on the API server show, also those that an agent has left there.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from laneway.controllers.dra import Slices
from laneway.core.device_plugin.health import Device, Facts, device_of, judged
from laneway.core.device_plugin.offer import Offer, Owner
from laneway.core.dra.claims import allocated
from laneway.core.dra.device import DRIVER, device_name
from laneway.core.inventory import Inventory
from laneway.kube.slices import CLAIMS
from support.allocating import Scheduler, overlap
from support.examples import first
from support.publishing import NODE, OWN, SECONDS, offer, publishing, slices

NOTHING = Inventory()
NAMESPACE = "default"
EVENTS = ("pod", "pod", "claim", "claim", "end", "free", "restart", "switch")
DEVICES = [offer(0, 7), offer(1, 7), offer(2, 8), offer(3, 9), offer(4, 9)]


class World:
    """A node with some cards, and who has them."""

    def __init__(self, cluster: Any, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance
        self.publishes = True
        self.pods: dict[Device, Owner] = {}
        self.slices: Slices
        self._agent = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        await self.restart()
        try:
            yield
        finally:
            await self._agent.aclose()

    async def restart(self) -> None:
        await self._agent.aclose()
        made = publishing(self.cluster, publish=self.publishes)
        self.slices = await self._agent.enter_async_context(made)
        self._say()

    def _healthy(self) -> tuple[Offer, ...]:
        return judged(DEVICES, NOTHING, Facts(owners=self.pods))

    def _say(self) -> None:
        self.slices.offered(self._healthy(), NOTHING, dict(self.pods))

    async def claimed(self) -> dict[str, str]:
        """The claim that has a device, by the device's name."""
        pages = [page async for page in self.cluster.client.list(CLAIMS, NAMESPACE)]
        claims = [CLAIMS.decode(item) for page in pages for item in page.items]
        return {name: one.metadata.name for one in claims for name in allocated(one.status, NODE)}

    async def happens(self, what: str) -> None:
        one = self.chance.choice(DEVICES)
        if self.chance.random() < 0.5:
            await self._settled()  # Else it comes while an agent starts.
        match what:
            case "pod":
                await self._admit(one)
            case "end":
                self.pods.pop(device_of(one), None)
            case "claim":
                await self._allocate(one)
            case "free":
                if name := (await self.claimed()).get(device_name(one)):
                    await self.cluster.client.delete(CLAIMS, name, NAMESPACE)
            case "restart":
                await self.restart()
                return
            case _:
                self.publishes = not self.publishes
                await self.restart()
                return
        self._say()
        await self._settled()

    async def _admit(self, one: Offer) -> None:
        """At once, whether the agent knows already what claims have or not."""
        left = self.slices.without_claimed(self._healthy())
        if any(it.id == one.id and not it.unhealthy for it in left):
            self.pods.setdefault(device_of(one), Owner(namespace=NAMESPACE, pod=f"vm-{one.id}"))

    async def _allocate(self, one: Offer) -> None:
        """As a scheduler does, if the pool that the server has is complete."""
        specs = [it.spec for it in await slices(self.cluster, OWN)]
        newest = max((spec["pool"]["generation"] for spec in specs), default=0)
        parts = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(spec["pool"]["resourceSliceCount"] != len(parts) for spec in parts):
            return
        scheduler, name = Scheduler(parts, await self.claimed()), device_name(one)
        if name not in scheduler.devices or not scheduler.give(name):
            return
        request = {"name": "gpu", "exactly": {"deviceClassName": "x"}}
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"devices": {"requests": [request]}},
        }
        await self.cluster.client.create(CLAIMS, body, NAMESPACE)
        result = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": name}
        status = {"status": {"allocation": {"devices": {"results": [result]}}}}
        await self.cluster.client.patch(CLAIMS, name, status, NAMESPACE, subresource="status")

    async def _settled(self) -> None:
        """Wait until the agent knows of the claims, and slices show what pods have."""
        claims = await self.claimed()
        changed = asyncio.Event()
        self.slices.subscribe(changed.set)
        async with asyncio.timeout(SECONDS):
            await self.slices.known.wait()
            while any(bool(self.slices.claim_of(o)) != (device_name(o) in claims) for o in DEVICES):
                changed.clear()
                await changed.wait()
            if self.publishes:
                await self._published()

    async def _published(self) -> None:
        held = {
            device_name(one)
            for one in DEVICES
            for other in DEVICES
            if device_of(other) in self.pods and (one is other or overlap(one, other))
        }
        while True:
            found = [it.spec for it in await slices(self.cluster, OWN)]
            shown = {one["name"]: one for spec in found for one in spec.get("devices") or ()}
            numbers = {(it["pool"]["generation"], it["pool"]["resourceSliceCount"]) for it in found}
            tainted = {name for name, one in shown.items() if one.get("taints")}
            whole = len(numbers) == 1 and numbers.pop()[1] == len(found)
            if whole and len(shown) == len(DEVICES) and tainted == held:
                return
            await self.slices.queue.join()

    async def check(self) -> None:
        claims = await self.claimed()
        claimed = [one for one in DEVICES if device_name(one) in claims]
        held = [one for one in DEVICES if device_of(one) in self.pods]
        for number, one in enumerate(claimed):
            for other in (*held, *claimed[:number]):
                assert one is not other
                assert not overlap(one, other), (one.name, other.name)


@pytest.mark.parametrize("seed", first(1, 2, 3, 4))
async def test_no_device_is_with_a_pod_and_a_claim(cluster: Any, seed: int) -> None:
    if cluster.server is None:
        pytest.skip("claims of other tests on this server would count")
    chance = random.Random(seed)
    world = World(cluster, chance)
    happened: set[tuple[str, bool]] = set()
    async with world.running():
        for _ in range(200):
            what = chance.choice(EVENTS)
            before = dict(world.pods), await world.claimed()
            await world.happens(what)
            await world.check()
            happened.add((what, before != (world.pods, await world.claimed())))
    assert {(what, True) for what in ("pod", "claim", "end", "free")} <= happened
