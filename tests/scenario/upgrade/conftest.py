"""A cluster on which parts of two versions of Laneway meet."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.roles.install import install_crds
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.accounts import REAL, Installed
from support.chart import helm
from support.control_plane import given
from support.embedded import embedded
from support.skew.cluster import Cluster, running
from support.skew.trees import TODAY, Tree, previous

OLDEST = 28
"""The Kubernetes that the chart is for, as the 28 of 1.28."""


@pytest.fixture(scope="session")
def old() -> Tree:
    return previous()


@pytest.fixture
def new() -> Tree:
    return TODAY


@pytest.fixture
async def kubeconfig(tmp_path: Path) -> AsyncIterator[str]:
    """The administrator's, of our server, or of the real one of the realapi tier."""
    if REAL:
        async with Client(load(os.environ["KUBECONFIG"])) as client:
            await install_crds(client)
            async with given(tmp_path) as (path, _):
                yield path
            await install_crds(client)  # for other tests: an old manager may have written its own
        return
    async with embedded(tmp_path / "server") as path:
        yield path


@pytest.fixture
async def mixed(
    kubeconfig: str, tmp_path: Path, free_port: Callable[[], int]
) -> AsyncIterator[Cluster]:
    """Kubernetes with KubeVirt, and nothing of Laneway's yet."""
    helm()
    config = load(kubeconfig)
    async with Client(config) as client:
        version = msgspec.json.decode(await client.raw("/version"))
        if int(version["minor"].rstrip("+")) < OLDEST:
            pytest.skip(f"the chart is for Kubernetes 1.{OLDEST} and newer")
        await install_kubevirt(client)
        installed = Installed(client, config, 0)
        async with running(Cluster(kubeconfig, client, tmp_path, free_port, installed)) as found:
            yield found
