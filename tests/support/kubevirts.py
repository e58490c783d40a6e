"""KubeVirt's kinds on the server of a test."""

from __future__ import annotations

import asyncio
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kapilite.server import ApiServer
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.config import load
from laneway.simcluster.kubevirt.install import install

DATABASE = "state.db"


def with_kubevirt(installed: Path, folder: Path) -> Path:
    """A folder with the database of another, and KubeVirt's kinds in it; a real server has them."""

    async def on(config: ClusterConfig) -> None:
        async with Client(config) as client:
            await install(client)

    async def embedded() -> None:
        server = ApiServer(str(folder / DATABASE))
        await server.start()
        await on(ClusterConfig(Cluster(server.url)))
        await server.stop()

    real = os.environ.get("LANEWAY_REALAPI")
    if not real:
        shutil.copy(installed / DATABASE, folder)
    work = on(load(os.environ["KUBECONFIG"])) if real else embedded()
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, work).result()
    return folder
