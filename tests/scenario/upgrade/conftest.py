"""A cluster on which parts of two versions of Laneway meet."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.accounts import Installed
from support.chart import helm
from support.embedded import Embedded
from support.skew.cluster import Cluster, starting
from support.skew.trees import TODAY, Tree, previous


@pytest.fixture(scope="session")
def old() -> Tree:
    return previous()


@pytest.fixture
def new() -> Tree:
    return TODAY


@pytest.fixture
async def mixed(tmp_path: Path, free_port: Callable[[], int]) -> AsyncIterator[Cluster]:
    """Kubernetes with KubeVirt, and nothing of Laneway's yet."""
    helm()
    server = Embedded(tmp_path / "server")
    kubeconfig = await asyncio.to_thread(server.start)
    try:
        config = load(kubeconfig)
        async with Client(config) as client, contextlib.AsyncExitStack() as stack:
            await install_kubevirt(client)
            installed = Installed(client, config, 0)
            found = Cluster(kubeconfig, client, tmp_path, free_port, installed, stack)
            async with starting(found):
                yield found
    finally:
        await asyncio.to_thread(server.end)
