"""A server that knows users and their rights, with Laneway on it as its chart installs it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from laneway.api import CoreNode
from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.accounts import REAL, Installed
from support.embedded import embedded
from support.world_parts import Parts


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """The administrator's, of a server with RBAC: ours, or the real one of the realapi tier."""
    if REAL:
        yield os.environ["KUBECONFIG"]
        return
    async with embedded(tmp_path / "server") as path:
        yield path


@pytest.fixture
async def chart(kubeconfig: str, free_port: Callable[[], int]) -> AsyncIterator[Installed]:
    """KubeVirt's kinds, and the chart's objects but for the definitions: the manager makes those.

    On a real server they are there already.
    """
    config = load(kubeconfig)
    async with Client(config) as client:
        await install_kubevirt(client)
        nodes = await _names(client, "/api/v1/nodes")
        installed = Installed(client, config, free_port())
        if REAL:
            await _clean(client, nodes)
        try:
            yield installed
        finally:
            await installed.uninstall()
            if REAL:
                await _clean(client, nodes)


@pytest.fixture
def cluster(chart: Installed) -> Any:
    """As `World` wants it."""
    client = chart.client

    async def connect() -> Client:
        return client

    return Parts(client, client, client, connect)


async def _names(client: Client, path: str) -> set[str]:
    try:
        found = msgspec.json.decode(await client.raw(path))
    except NotFoundError:
        return set()
    return {one["metadata"]["name"] for one in found["items"]}


async def _clean(client: Client, nodes: set[str]) -> None:
    """All objects of Laneway's, whatever holds them, and nodes that were not there before."""
    for kind in KINDS:
        for name in await _names(client, kind.path):
            with contextlib.suppress(NotFoundError):
                await client.patch(served(kind.type), name, {"metadata": {"finalizers": None}})
                await client.delete(served(kind.type), name)
    for name in await _names(client, "/api/v1/nodes") - nodes:
        with contextlib.suppress(NotFoundError):
            await client.delete(served(CoreNode), name)
