"""One API server for all tests of this folder: ours, or in the realapi tier a real kube-apiserver.

The tests are the contract between both: what passes on one and fails on the other is a mistake of
the embedded server. `LANEWAY_REALAPI` is set when KUBECONFIG names a server to test on. The server
is shared, by all tests and by those that run alongside them, so every test has a namespace of its
own, gives cluster-wide objects names that no other test has, and takes nothing for granted about
the rest.

The embedded server has TLS, tokens, access rules and all.
"""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import pytest

from kapilite.testing import Cluster
from server_support.kube import REAL, SECONDS, Kube, Resource
from server_support.reaching import reached
from server_support.sweep import sweep  # noqa: F401 - a fixture


@pytest.fixture(scope="session")
def embedded_kubeconfig(kapilite_shared_cluster: Cluster) -> str:
    return kapilite_shared_cluster.kubeconfig


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> str:
    """How an administrator reaches the server under test."""
    return os.environ["KUBECONFIG"] if REAL else request.getfixturevalue("embedded_kubeconfig")


@pytest.fixture
async def admin(kubeconfig: str) -> AsyncIterator[Kube]:
    """The server as its administrator sees it, with the namespace not made yet."""
    server = reached(kubeconfig)
    opened: list[socket.socket] = []

    def remembered(info: aiohttp.AddrInfoType) -> socket.socket:
        opened.append(socket.socket(*info[:3]))
        return opened[-1]

    connector = aiohttp.TCPConnector(ssl=server.tls, limit=0, socket_factory=remembered)
    async with aiohttp.ClientSession(connector=connector) as session:
        kube = Kube(session, server.url, f"c-{uuid.uuid4().hex[:8]}", 0, server.headers)
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
