"""A Harvester whose writes Laneway's webhook reviews, and the driver. See `make test-driver`.

Where the driver cannot be built they are skipped, saying why, unless the tier runs them
(`LANEWAY_DRIVER`), which has seen to it that it can.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kapilite.server import ApiServer
from laneway.api.registry import KINDS
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.config import load
from laneway.roles.install import install_crds
from laneway.simcluster.harvester.volumes import Volumes
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from support.control_plane import until_served
from support.harvester import aggregated, readdressed, stock
from support.machine_driver import (
    CLIENT_BUILD,
    QUICK,
    Machines,
    NoDriverError,
    Programs,
    build,
    plain_options,
)
from support.reviewed import DATABASE, Served, reviewing, served
from support.world_parts import Parts
from support.worlds import World
from support.worlds import started as world_started


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    folder = tmp_path_factory.mktemp("programs")
    try:
        driver = build(folder / "docker-machine-driver-laneway", *QUICK)
    except NoDriverError as error:
        if os.environ.get("LANEWAY_DRIVER"):
            raise
        pytest.skip(f"no machine driver: {error}")
    return Programs(driver, build(folder / "client", script=CLIENT_BUILD))


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a server that has all kinds and what machines are made of."""
    folder = tmp_path_factory.mktemp("harvester")

    async def work() -> None:
        server = ApiServer(str(folder / DATABASE))
        await server.start()
        async with Client(ClusterConfig(Cluster(server.url))) as client:
            await install_crds(client)
            for kind in KINDS:
                await until_served(client, kind.path)
            await install_kubevirt(client)
            await stock(client)
        await server.stop()

    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, work()).result()
    return folder


@pytest.fixture
async def serving(installed: Path, tmp_path: Path) -> AsyncIterator[Served]:
    shutil.copy(installed / DATABASE, tmp_path)
    async with served(tmp_path) as serving:
        yield serving


@pytest.fixture
async def world(serving: Served, tmp_path: Path) -> AsyncIterator[World]:
    """Webhook, scheduler, KubeVirt, manager, volumes; `world.add` adds a node."""
    async with contextlib.AsyncExitStack() as stack:
        configs = (load(serving.kubeconfig), serving.own, serving.kubevirts)
        clients = [await stack.enter_async_context(Client(one)) for one in configs]
        parts = Parts(*clients)
        await stack.enter_async_context(reviewing(serving, parts.families.registry))
        world = await stack.enter_async_context(world_started(parts, tmp_path / "world"))
        volumes = asyncio.create_task(Volumes(parts.client).run())
        yield world
        volumes.cancel()


@pytest.fixture
async def machines(
    world: World, serving: Served, programs: Programs, tmp_path: Path
) -> AsyncIterator[Machines]:
    """rancher-machine with the kubeconfig of this Harvester."""
    async with aggregated(serving.server.url, serving.pki, world.client) as address:
        yield Machines(programs, tmp_path, plain_options(readdressed(serving.kubeconfig, address)))


@pytest.fixture
def alone(programs: Programs, tmp_path: Path) -> Machines:
    """rancher-machine without any Harvester."""
    return Machines(programs, tmp_path, plain_options("{}"))


@pytest.fixture
def checked(serving: Served, programs: Programs, tmp_path: Path) -> Machines:
    """rancher-machine with a Harvester on which nothing is at work: enough for what is checked."""
    kubeconfig = Path(serving.kubeconfig).read_text()
    return Machines(programs, tmp_path, plain_options(kubeconfig))
