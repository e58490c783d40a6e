"""A real API server with our CRDs, named by KUBECONFIG; objects of a test's node go with it."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.roles.install import install_crds

SECONDS = 60.0


class Server:
    """The server and one node name that no other test has."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.node = f"node-{uuid.uuid4().hex[:8]}"

    async def of_node(self, cls: type[Any]) -> dict[str, Any]:
        """The objects of the node, by name."""
        resource = served(cls)
        pages = self.client.list(resource, label_selector=f"nodename={self.node}")
        found = [resource.decode(item) async for page in pages for item in page.items]
        return {obj.metadata.name: obj for obj in found}

    async def until(self, cls: type[Any], name: str, holds: Callable[[Any], bool]) -> Any:
        """Wait, by watching, until an object is as a test expects."""
        resource = served(cls)
        async with asyncio.timeout(SECONDS):
            while True:
                page = [page async for page in self.client.list(resource)][-1]
                obj = await self.client.get(resource, name)
                if holds(obj):
                    return obj
                async for _ in self.client.watch(
                    resource, resource_version=page.resource_version, server_seconds=5
                ):
                    break

    async def clean(self) -> None:
        for kind in KINDS:
            resource = served(kind.type)
            async for page in self.client.list(resource):
                for item in page.items:
                    meta = msgspec.json.decode(item)["metadata"]
                    if meta["name"].startswith(self.node):
                        await self.client.delete(resource, meta["name"], meta.get("namespace", ""))


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    if not os.environ.get("LANEWAY_REALAPI"):
        pytest.fail("these tests need a cluster that they may change: make test-realapi")
    async with Client(load(os.environ["KUBECONFIG"])) as client:
        await install_crds(client)
        for kind in KINDS:
            await _served(client, kind.path)
        found = Server(client)
        yield found
        await found.clean()


async def _served(client: Client, path: str) -> None:
    async with asyncio.timeout(SECONDS):
        while not await _is_served(client, path):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.1)


async def _is_served(client: Client, path: str) -> bool:
    try:
        await client.raw(path, {"limit": "1"})
    except NotFoundError:
        return False
    return True
