"""A control plane of real parts in one event loop: API server, client, agents, simulated hosts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.apiserver.server import ApiServer
from laneway.controllers.metrics import MetricFamilies
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.roles.agent import Agent
from laneway.roles.install import install_crds
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

SECONDS = 20.0


class Cluster:
    """The API server and what a test does to it; `start_agent` adds a node."""

    def __init__(self, client: Client, server: ApiServer, stack: contextlib.AsyncExitStack) -> None:
        self.client = client
        self.server = server
        self.families = MetricFamilies()
        self._stack = stack

    async def get(self, cls: type[Any], name: str) -> Any:
        return await self.client.get(served(cls), name)

    async def names(self, cls: type[Any]) -> set[str]:
        return {obj.metadata.name for obj in await self.all(cls)}

    async def all(self, cls: type[Any]) -> list[Any]:
        resource = served(cls)
        pages = [page async for page in self.client.list(resource)]
        return [resource.decode(item) for page in pages for item in page.items]

    async def patch(self, cls: type[Any], name: str, body: dict[str, Any], sub: str = "") -> Any:
        return await self.client.patch(served(cls), name, body, subresource=sub)

    async def until(self, cls: type[Any], name: str, holds: Callable[[Any], bool]) -> Any:
        """Wait, by watching, until an object is as a test expects; None stands for no object."""
        resource = served(cls)
        async with asyncio.timeout(SECONDS):
            while True:
                page = [page async for page in self.client.list(resource)][-1]
                try:
                    obj = await self.get(cls, name)
                except NotFoundError:
                    obj = None
                if holds(obj):
                    return obj
                async for _event in self.client.watch(
                    resource, resource_version=page.resource_version, server_seconds=5
                ):
                    break

    async def start_agent(self, node: str, host: SimulatedHost) -> Agent:
        """An agent that has published its host; it runs until the test ends or `stop`s it."""
        agent = Agent(node, host, self.client, self.families)
        task = asyncio.create_task(agent.run())
        self._stack.push_async_callback(_cancel, task)
        agent.task = task  # type: ignore[attr-defined]
        waiter = asyncio.create_task(agent.ready.wait())
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task, waiter}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            waiter.cancel()
            task.result()
        return agent

    async def stop_agent(self, agent: Agent) -> None:
        await _cancel(agent.task)  # type: ignore[attr-defined]

    def metric(self, name: str) -> float:
        """The sum of a metric over all its labels."""
        return sum(
            sample.value
            for family in self.families.registry.collect()
            for sample in family.samples
            if sample.name == name
        )


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    server = ApiServer(str(tmp_path / "state.db"))
    await server.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\n"
        "contexts: [{name: t, context: {cluster: t, user: t}}]\nusers: [{name: t, user: {}}]\n"
        f"clusters: [{{name: t, cluster: {{server: '{server.url}'}}}}]\n"
    )
    try:
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(load(str(kubeconfig))))
            await install_crds(client)
            yield Cluster(client, server, stack)
    finally:
        await server.stop()


@pytest.fixture
def simulated() -> Callable[[str, str], SimulatedHost]:
    """A simulated host by its SPEC."""
    return lambda spec, name: build(parse_spec(spec), name)
