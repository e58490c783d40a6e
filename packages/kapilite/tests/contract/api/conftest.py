"""One API server for all tests of this folder: ours, or in the realapi tier a real kube-apiserver.

The tests are the contract between both: what passes on one and fails on the other is a mistake of
the embedded server. `LANEWAY_REALAPI` is set when KUBECONFIG names a server to test on. The server
is shared, by all tests and by those that run beside them, so every test has a namespace of its own,
gives cluster-wide objects names that nobody else has, and takes nothing for granted about the rest.

The embedded server is started as `laneway up` starts it: TLS, tokens, access rules and all.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import aiohttp
import msgspec
import pytest

from laneway.api import VGPUDevice
from laneway.api.registry import KINDS
from laneway.kube.auth import credentials_for
from laneway.kube.client import Client, PatchType
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import Resource as TypedResource
from laneway.kube.resource import served
from laneway.kube.stream import WatchEvent
from laneway.kube.tls import client_context
from laneway.roles.install import install_crds
from support.embedded import Embedded
from support.kube import REAL, SECONDS, Kube, Resource
from support.sweep import sweep  # noqa: F401 - a fixture

VGPUS: TypedResource[VGPUDevice] = served(VGPUDevice)


@pytest.fixture(scope="session")
def embedded_kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = Embedded(tmp_path_factory.mktemp("embedded"))
    try:
        yield server.start()
    finally:
        server.end()


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """How an administrator reaches the server under test."""
    return os.environ["KUBECONFIG"] if REAL else request.getfixturevalue("embedded_kubeconfig")


@pytest.fixture
async def admin(kubeconfig: str) -> AsyncIterator[Kube]:
    """The server as its administrator sees it, with the namespace not made yet."""
    config = load(kubeconfig)
    identity = await credentials_for(config).identity()
    tls = client_context(config.cluster, identity.certificate, identity.key)
    headers = {"Authorization": identity.authorization} if identity.authorization else {}
    opened: list[socket.socket] = []

    def remembered(info: aiohttp.AddrInfoType) -> socket.socket:
        opened.append(socket.socket(*info[:3]))
        return opened[-1]

    connector = aiohttp.TCPConnector(ssl=tls, limit=0, socket_factory=remembered)
    async with aiohttp.ClientSession(connector=connector) as session:
        kube = Kube(session, config.cluster.server, f"c-{uuid.uuid4().hex[:8]}", 0, headers)
        kube.minor = int((await kube.get("/version")).ok["minor"].rstrip("+"))
        yield kube
    # A connection ends some turns later; where the server ends it, once both have said goodbye.
    async with asyncio.timeout(SECONDS):
        while any(one.fileno() >= 0 for one in opened):  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0)


@pytest.fixture(params=["real" if REAL else "embedded"])
async def kube(admin: Kube) -> AsyncIterator[Kube]:
    """The server as its administrator sees it, with a namespace for this test."""
    namespaces = admin.of("namespaces")
    (await admin.post(namespaces.path(), namespaces.new(admin.namespace))).ok
    yield admin
    await admin.clean()


# ---- custom kinds ----


@pytest.fixture
async def gizmos(kube: Kube) -> Resource:
    """A namespaced kind with status, scale, lists of all types, defaults and formats."""
    return await kube.shared("gizmos")


@pytest.fixture
async def gadgets(kube: Kube) -> Resource:
    """A cluster-wide kind without a status or any rule."""
    return await kube.shared("gadgets")


@pytest.fixture
def crd(kube: Kube) -> Callable[..., dict[str, Any]]:
    """Makes the CRD of a kind that is this test's own."""

    def make(schema: dict[str, Any] | None = None, **version: Any) -> dict[str, Any]:
        group = f"{kube.namespace}.example.com"
        shape = {"type": "object", **(schema or {"x-kubernetes-preserve-unknown-fields": True})}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{group}"},
            "spec": {
                "group": group,
                "names": {
                    "kind": "Thing",
                    "listKind": "ThingList",
                    "plural": "things",
                    "singular": "thing",
                },
                "scope": "Namespaced",
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": shape},
                        **version,
                    }
                ],
            },
        }

    return make


# ---- our own kinds, through our own client ----


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
