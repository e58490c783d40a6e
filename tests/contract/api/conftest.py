"""An API server with our CRDs: the embedded one, and in the realapi tier a real kube-apiserver.

The tests of this folder are the contract between both: what passes on one and fails on the other
is a mistake of the embedded server. `LANEWAY_REALAPI` is set when KUBECONFIG names a server to
test on.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway.api import VGPUDevice
from laneway.api.registry import KINDS
from laneway.apiserver.server import ApiServer
from laneway.kube.client import Client, PatchType
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource, served
from laneway.kube.stream import WatchEvent
from laneway.roles.install import install_crds

REAL = bool(os.environ.get("LANEWAY_REALAPI"))
SECONDS = 30.0

VGPUS: Resource[VGPUDevice] = served(VGPUDevice)


class Api:
    """One server; every object that a test makes has a name of its own and is removed after it."""

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
        answer = await self.client._call(method, path, params, body, content_type)
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

    async def events(self, count: int, **options: Any) -> list[tuple[str, dict[str, Any]]]:
        """The first changes of a watch that are no bookmarks."""
        found: list[tuple[str, dict[str, Any]]] = []
        event: WatchEvent
        async with asyncio.timeout(SECONDS):
            async for event in self.client.watch(VGPUS, **options):
                if event.type != "BOOKMARK":
                    found.append((event.type, msgspec.json.decode(event.object)))
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


@asynccontextmanager
async def _embedded(directory: Path) -> AsyncIterator[str]:
    server = ApiServer(str(directory / "state.db"))
    await server.start()
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\n"
        "contexts: [{name: t, context: {cluster: t, user: t}}]\nusers: [{name: t, user: {}}]\n"
        f"clusters: [{{name: t, cluster: {{server: '{server.url}'}}}}]\n"
    )
    try:
        yield str(kubeconfig)
    finally:
        await server.stop()


@asynccontextmanager
async def _given(_directory: Path) -> AsyncIterator[str]:
    yield os.environ["KUBECONFIG"]


async def _served(client: Client) -> None:
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
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Api]:
    start = _given if REAL else _embedded
    async with start(tmp_path) as kubeconfig, Client(load(kubeconfig)) as client:
        await install_crds(client)
        await _served(client)
        found = Api(client)
        yield found
        await found.clean()
