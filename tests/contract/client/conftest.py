"""Laneway's own client and kinds on one API server: kapilite, or in the realapi tier a real one.

What a client gets is the contract here; what an API server answers in general is that of
packages/kapilite/tests/contract.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kapilite.testing import Cluster
from laneway.api import VGPUDevice
from laneway.api.registry import KINDS
from laneway.kube.client import Client, PatchType
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource, served
from laneway.kube.stream import WatchEvent
from laneway.roles.install import install_crds
from server_support.kube import REAL, SECONDS

VGPUS: Resource[VGPUDevice] = served(VGPUDevice)


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """How an administrator reaches the server under test."""
    if REAL:
        return os.environ["KUBECONFIG"]
    cluster: Cluster = request.getfixturevalue("kapilite_shared_cluster")
    return cluster.kubeconfig


class Api:
    """VGPUDevices; every object that a test makes has a name of its own and is removed after it."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.run = uuid.uuid4().hex[:8]
        self._made: list[str] = []

    def name(self, suffix: str = "x") -> str:
        return f"{self.run}-{suffix}"

    async def call(
        self,
        method: str,
        name: str = "",
        body: Any = None,
        *,
        params: dict[str, str] | None = None,
        content_type: str = "application/json",
    ) -> dict[str, Any]:
        """A request for VGPUDevices as JSON; a refusal is an ApiError."""
        path = VGPUS.path("", *name.split("/")) if name else VGPUS.path()
        answer = await self.client.call(method, path, params, body, content_type)
        return msgspec.json.decode(answer)

    async def create(self, suffix: str = "x", **fields: Any) -> dict[str, Any]:
        body = vgpu(self.name(suffix), **fields)
        made = await self.call("POST", body=body)
        self._made.append(made["metadata"]["name"])
        return made

    async def merge(self, name: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self.call("PATCH", name, body, content_type=PatchType.MERGE)

    async def version(self) -> str:
        """The resourceVersion of the collection now."""
        return (await self.call("GET"))["metadata"]["resourceVersion"]

    async def events(
        self, count: int, *, ours: bool = True, **options: Any
    ) -> list[tuple[str, dict[str, Any]]]:
        """The first changes of a watch that are no bookmarks; of this test's objects only."""
        found: list[tuple[str, dict[str, Any]]] = []
        event: WatchEvent
        async with asyncio.timeout(SECONDS):
            async for event in self.client.watch(VGPUS, **options):
                obj = msgspec.json.decode(event.object)
                if event.type != "BOOKMARK" and obj["metadata"]["name"].startswith(self.run):
                    found.append((event.type, obj))
                if len(found) == count:
                    break
        return found

    async def clean(self) -> None:
        for name in self._made:
            try:
                await self.merge(name, {"metadata": {"finalizers": None}})
                await self.call("DELETE", name)
            except NotFoundError:
                pass


def vgpu(name: str, **fields: Any) -> dict[str, Any]:
    metadata = {"name": name, **fields.pop("metadata", {})}
    spec = {"address": "0000:08:00.4", "nodeName": "node1", "enabled": False}
    return {
        "apiVersion": "devices.harvesterhci.io/v1beta1",
        "kind": "VGPUDevice",
        "metadata": metadata,
        "spec": {**spec, **fields.pop("spec", {})},
        **fields,
    }


async def _until_served(client: Client) -> None:
    """Wait until every kind is: a server that took a CRD serves its kind a moment later."""
    async with asyncio.timeout(SECONDS):
        for kind in KINDS:
            while True:
                try:
                    await client.raw(kind.path, {"limit": "1"})
                    break
                except NotFoundError:
                    await asyncio.sleep(0.1)


@pytest.fixture(params=["real" if REAL else "embedded"])
async def api(kubeconfig: str) -> AsyncIterator[Api]:
    async with Client(load(kubeconfig)) as client:
        await install_crds(client)
        await _until_served(client)
        found = Api(client)
        yield found
        await found.clean()
