"""The API server of scenarios: the embedded one, or the one that KUBECONFIG names, emptied."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from kapilite.server import ApiServer
from laneway.api import CoreNode, VGPUDevice
from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Key, Resource, served
from support.api_server import kubeconfig_of

SECONDS = 60.0
DATABASE = "state.db"


@contextlib.asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[tuple[str, ApiServer]]:
    """Our API server with the database in a folder, and a kubeconfig for it."""
    server = ApiServer(str(directory / DATABASE))
    await server.start()
    kubeconfig = kubeconfig_of(server, directory)
    try:
        yield kubeconfig, server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def given(_directory: Path) -> AsyncIterator[tuple[str, None]]:
    """The real API server of the realapi tier. All Laneway objects on it are the test's."""
    kubeconfig = os.environ["KUBECONFIG"]
    async with Client(load(kubeconfig)) as client:
        nodes = await _names(client, CoreNode)
        await _remove(client, set())
        try:
            yield kubeconfig, None
        finally:
            await _remove(client, await _names(client, CoreNode) - nodes)


async def _keys(client: Client, resource: Resource[Any]) -> set[Key]:
    pages = [page async for page in client.list(resource)]
    found = [msgspec.json.decode(item)["metadata"] for page in pages for item in page.items]
    return {Key(meta.get("namespace", ""), meta["name"]) for meta in found}


async def _namespaces(client: Client, resource: Resource[Any]) -> set[str]:
    """Where there are objects of a kind; empty for one that has no namespaces."""
    return {key.namespace for key in await _keys(client, resource)}


async def _names(client: Client, cls: type[Any]) -> set[str]:
    return {key.name for key in await _keys(client, served(cls))}


async def _remove(client: Client, nodes: set[str]) -> None:
    """All Laneway objects, whatever holds them, the events about them, and some nodes."""
    for kind in KINDS:
        resource = served(kind.type)
        # A collection can be deleted in one namespace only.
        for namespace in await _namespaces(client, resource):
            await client.call("DELETE", resource.path(namespace))
        for key in await _keys(client, resource):
            with contextlib.suppress(NotFoundError):
                await client.patch(
                    resource, key.name, {"metadata": {"finalizers": None}}, key.namespace
                )
    for name in nodes:
        with contextlib.suppress(NotFoundError):
            await client.delete(served(CoreNode), name)
    about = {"fieldSelector": f"involvedObject.apiVersion={served(VGPUDevice).api_version}"}
    await client.call("DELETE", "/api/v1/namespaces/default/events", about)


async def until_served(client: Client, path: str) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            with contextlib.suppress(NotFoundError):
                await client.raw(path, {"limit": "1"})
                return
            await asyncio.sleep(0.1)
