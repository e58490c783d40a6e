"""A node whose agent does not report: the history says that it knows nothing, not that all holds.

The interface's own clock runs fast, so that the tests do not wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kapilite.server import ApiServer
from laneway.api import VGPUDevice
from laneway.core.history import Span, written
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.informer import Informer
from laneway.kube.pods import PODS
from laneway.kube.resource import Resource, served
from laneway.web.caches import Caches
from laneway.web.history.finding import Query
from laneway.web.history.recorder import History
from laneway.web.history.silences import LASTING_MS
from laneway.web.history.store import Keeping
from laneway.web.server_state import ServerState
from support.processes import SECONDS
from support.troubled_cluster import AGENT, NODES, VGPUS, condition, make

HELD = VGPUS[0]
SPEED = 60


class Watched:
    """A history, the cluster that it is of, and its clock."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.caches = Caches.of(client)
        self.server = ServerState(client)
        self._client = client
        self.ahead = 0.0
        """Seconds."""
        began = time.time()

        def clock() -> float:
            return began + (time.time() - began) * SPEED + self.ahead

        self.history = History(self.caches, self.server, Keeping(str(folder)), clock)

    async def says(self, resource: Resource[Any], name: str, status: dict[str, Any]) -> None:
        """What an object says from now on, once the interface knows it."""
        namespace = "harvester-system" if resource is PODS else ""
        new = await self._client.patch(
            resource, name, {"status": status}, namespace, subresource="status"
        )
        informers: list[Informer[Any]] = [
            self.caches.agents,
            self.caches.vgpus,
            self.caches.nodes,
        ]
        known = asyncio.Event()

        def changed(_before: Any, after: Any) -> None:
            if after and after.metadata.resource_version == new.metadata.resource_version:
                known.set()

        for informer in informers:
            informer.subscribe(changed)
        async with asyncio.timeout(SECONDS):
            await known.wait()

    async def agent(self, *, ready: bool) -> None:
        conditions = [{"type": "Ready", "status": str(ready)}]
        await self.says(PODS, AGENT, {"conditions": conditions})

    async def entries(self, count: int, *, closed: str = "") -> Sequence[Span]:
        """The entries, once there are so many, and the one of a device, or gap, has ended."""
        async with asyncio.timeout(SECONDS):
            while True:
                changed = self.history.changed
                if self.history.recording:
                    found = (await self.history.find(Query(), None)).spans
                    ended = [
                        one.hold.device if one.hold else one.node for one in found if one.until
                    ]
                    if len(found) == count and (not closed or closed in ended):
                        return found
                await changed.wait()


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    server = ApiServer()
    await server.start()
    async with Client(ClusterConfig(Cluster(server.url))) as client:
        await make(client)
        found = Watched(client, tmp_path)
        informers = [one.run() for one in found.caches.all.values()]
        running = [*informers, found.server.run(), found.history.run()]
        tasks = [asyncio.ensure_future(one) for one in running]
        yield found
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await server.stop()


async def test_what_ends_while_an_agent_is_silent_was_held_until_it_fell_silent(
    watched: Watched,
) -> None:
    [held] = await watched.entries(1)
    await watched.agent(ready=False)
    gap, held = await watched.entries(2)
    assert (gap.hold, gap.node, gap.until) == (None, "n1", None)
    assert (held.hold is not None, held.until, held.end_seen) == (True, None, True)

    await watched.says(served(VGPUDevice), HELD, {"allocation": None})
    gap, held = await watched.entries(2, closed=HELD)
    assert (held.until, held.end_seen) == (gap.since, False)

    await watched.agent(ready=True)
    gap, _held = await watched.entries(2, closed="n1")
    assert gap.until is not None
    assert gap.until >= gap.since + LASTING_MS


async def test_a_node_that_kubernetes_does_not_hear_was_silent_before_it_says_so(
    watched: Watched,
) -> None:
    [held] = await watched.entries(1)
    watched.ahead = 10.0
    unknown = condition("Ready", "Unknown", "NodeStatusUnknown")
    said = watched.history.now
    unknown["lastTransitionTime"] = written(said)
    del unknown["observedGeneration"]
    await watched.says(NODES, "n1", {"conditions": [unknown]})
    gap, _held = await watched.entries(2)
    assert gap.node == "n1"
    assert held.since <= gap.since < said - 5_000
