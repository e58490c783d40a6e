"""Servers that have more kinds than ours, from the beginning of a test."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kapilite.server import ApiServer
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.config import load
from laneway.simcluster.kubevirt.install import install

DATABASE = "state.db"


def with_more(installed: Path, folder: Path, fill: Callable[[Client], Awaitable[None]]) -> Path:
    """A folder with the database of another, filled further; a real server is filled as it is."""

    async def on(config: ClusterConfig) -> None:
        async with Client(config) as client:
            await fill(client)

    async def embedded() -> None:
        server = ApiServer(str(folder / DATABASE))
        await server.start()
        await on(ClusterConfig(Cluster(server.url)))
        await server.stop()

    real = os.environ.get("LANEWAY_REALAPI")
    if not real:
        shutil.copy(installed / DATABASE, folder)
    work = on(load(os.environ["KUBECONFIG"])) if real else embedded()
    with ThreadPoolExecutor() as thread:  # the caller may be in an event loop
        thread.submit(asyncio.run, work).result()
    return folder


def with_kubevirt(installed: Path, folder: Path) -> Path:
    """The same with KubeVirt's kinds."""
    return with_more(installed, folder, install)
