"""A node's ResourceSlices on an API server: who publishes them, and how a scheduler sees them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Self

import msgspec

from laneway.api import CoreNode
from laneway.controllers.dra import Slices
from laneway.controllers.metrics import AgentMetrics
from laneway.core.device_plugin.offer import Offer
from laneway.core.dra.device import DRIVER
from laneway.core.pci import PciAddress
from laneway.kube.client import Client
from laneway.kube.errors import NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from laneway.kube.slices import SLICES, ResourceSlice
from support.devices import function_offer

NODE = "node1"
SECONDS = 60.0
OWN = f"spec.driver={DRIVER},spec.nodeName={NODE}"


def offer(slot: int, group: int) -> Offer:
    """A whole card."""
    return function_offer(PciAddress(0, 8 + slot // 32, slot % 32, 0), group=group, numa_node=0)


@contextlib.asynccontextmanager
async def publishing(cluster: Any, *, publish: bool = True) -> AsyncIterator[Slices]:
    """Publish for a node until the end of the block, which is as if it was killed."""
    metrics = AgentMetrics(cluster.families, NODE)
    nodes = Informer(cluster.client, served(CoreNode))
    follower = asyncio.create_task(nodes.run())
    await nodes.synced.wait()
    found = Slices(NODE, cluster.client, nodes, metrics, publish=publish)
    task = asyncio.create_task(found.run())
    try:
        yield found
    finally:
        for one in (task, follower):
            one.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await one


async def has_slices(client: Client) -> bool:
    """Whether the API server knows ResourceSlices."""
    try:
        async for _ in client.list(SLICES, limit=1):
            break
    except NotFoundError:
        return False
    return True


async def slices(cluster: Any, selector: str = "") -> list[ResourceSlice]:
    pages = [page async for page in cluster.client.list(SLICES, field_selector=selector)]
    return [SLICES.decode(item) for page in pages for item in page.items]


async def until(
    cluster: Any, holds: Callable[[list[ResourceSlice]], bool], selector: str = ""
) -> list[ResourceSlice]:
    """Wait until the slices are as a test expects."""
    async with asyncio.timeout(SECONDS):
        while True:
            page = [p async for p in cluster.client.list(SLICES, field_selector=selector)][-1]
            found = await slices(cluster, selector)
            if holds(found):
                return found
            async for _event in cluster.client.watch(
                SLICES, resource_version=page.resource_version, server_seconds=5
            ):
                break


def devices(found: Sequence[ResourceSlice]) -> dict[str, Any]:
    return {one["name"]: one for it in found for one in it.spec.get("devices") or ()}


Said = list[dict[str, Any]]
"""The slices of a pool without generation and number, in a fixed order."""


def said(specs: Sequence[dict[str, Any]]) -> Said:
    """What a pool says, whatever the server adds to it."""
    kept = [
        {key: one[key] for key in ("devices", "sharedCounters") if one.get(key)} for one in specs
    ]
    for one in kept:
        for device in one.get("devices", ()):
            for taint in device.get("taints", ()):
                taint.pop("timeAdded", None)
    return sorted((one for one in kept if one), key=str)


class PoolReader:
    """Sees every state of the node's pool, and remembers those that a scheduler would take.

    Like Kubernetes' scheduler, it looks at the newest generation alone, and only when it has as
    many slices of that as each of them says.
    """

    def __init__(self, client: Client) -> None:
        self.complete: list[Said] = []
        """One after the other."""
        self.generations: list[int] = []
        """The newest after each change."""
        self._client = client
        self._stored: dict[str, dict[str, Any]] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        page = [p async for p in self._client.list(SLICES, field_selector=OWN)][-1]
        for item in page.items:
            self._take("ADDED", item)
        self._task = asyncio.create_task(self._follow(page.resource_version))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def until(self, wanted: Said) -> None:
        """Wait until this is the whole pool, and nothing is left of what was before."""
        async with asyncio.timeout(SECONDS):
            while not (self.seen() == wanted == said(list(self._stored.values()))):
                self._changed.clear()
                await self._changed.wait()

    def seen(self) -> Said | None:
        """What it allocates from; None while the pool is incomplete."""
        specs = list(self._stored.values())
        newest = max((spec["pool"]["generation"] for spec in specs), default=0)
        found = [spec for spec in specs if spec["pool"]["generation"] == newest]
        if any(spec["pool"]["resourceSliceCount"] != len(found) for spec in found) or not found:
            return None
        return said(found)

    async def _follow(self, version: str) -> None:
        async for event in self._client.watch(
            SLICES, resource_version=version, field_selector=OWN, server_seconds=300
        ):
            self._take(event.type, event.object)

    def _take(self, change: str, item: msgspec.Raw) -> None:
        if change == "BOOKMARK":
            return
        one = SLICES.decode(item)
        self._stored.pop(one.metadata.name, None)
        if change != "DELETED":
            self._stored[one.metadata.name] = one.spec
        self.generations.append(
            max((spec["pool"]["generation"] for spec in self._stored.values()), default=0)
        )
        seen = self.seen()
        if seen is not None and (not self.complete or self.complete[-1] != seen):
            self.complete.append(seen)
        self._changed.set()
