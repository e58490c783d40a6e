"""A cluster that is Rancher's management cluster, and the Harvester of its guest clusters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.kubevirt import VIRTUAL_MACHINES, VirtualMachine
from laneway.kube.rancher import GUEST_CLUSTERS, HARVESTER_CONFIGS, LABEL_POOL, LANEWAY_CONFIGS
from laneway.simcluster.kubevirt.install import install as install_kubevirt
from laneway.simcluster.rancher.controller import SimulatedRancher
from laneway.simcluster.rancher.install import install as install_rancher
from support.commands import Laneway, shell
from support.databases import with_more
from support.worlds import World
from support.worlds import started as world_started

NAMESPACE = "fleet-default"
Make = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="session")
def installed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What every test of the scenarios finds, and the kinds of KubeVirt and Rancher."""

    async def fill(client: Client) -> None:
        await install_kubevirt(client)
        await install_rancher(client)
        await client.call("POST", "/api/v1/namespaces", None, {"metadata": {"name": NAMESPACE}})

    return with_more(installed, tmp_path_factory.mktemp("machine-pools"), fill)


@pytest.fixture
async def world(cluster: Any, tmp_path: Path) -> AsyncIterator[World]:
    """Scheduler, KubeVirt, manager and Rancher; `world.add` adds a node with kubelet and agent."""
    async with world_started(cluster, tmp_path / "world") as world:
        rancher = asyncio.create_task(SimulatedRancher(cluster.client, cluster.client).run())
        yield world
        rancher.cancel()


@pytest.fixture
def laneway(tmp_path: Path) -> Laneway:
    """Runs a command against the cluster."""
    return shell(str(tmp_path / "kubeconfig"))


@pytest.fixture
def guest(cluster: Any) -> Make:
    """Makes a guest cluster; its pools have a configuration each, with these fields."""

    async def make(
        name: str = "guest", *, kind: str = "HarvesterConfig", **pools: dict[str, Any]
    ) -> None:
        configs = LANEWAY_CONFIGS if kind == LANEWAY_CONFIGS.kind else HARVESTER_CONFIGS
        listed = []
        for pool, given in pools.items():
            fields = dict(given)
            entry = {key: fields.pop(key) for key in ("quantity", "rollingUpdate") if key in fields}
            config = f"nc-{name}-{pool}"
            about = {"apiVersion": configs.api_version, "kind": kind, "metadata": {"name": config}}
            await cluster.client.create(configs, {**about, **fields}, NAMESPACE)
            reference = {"kind": kind, "name": config}
            listed.append(
                {"name": pool, "machineConfigRef": reference, "workerRole": True, **entry}
            )
        body = {
            "apiVersion": GUEST_CLUSTERS.api_version,
            "kind": GUEST_CLUSTERS.kind,
            "metadata": {"name": name},
            "spec": {"rkeConfig": {"machinePools": listed}},
        }
        await cluster.client.create(GUEST_CLUSTERS, body, NAMESPACE)

    return make


@pytest.fixture
def machines(cluster: Any) -> Make:
    """Waits until a pool has so many VMs that run, and no others; gives them."""

    async def wait(count: int, pool: str = "gpu") -> list[VirtualMachine]:
        async with asyncio.timeout(60):
            while True:
                pages = cluster.client.list(VIRTUAL_MACHINES, label_selector=f"{LABEL_POOL}={pool}")
                found = [VIRTUAL_MACHINES.decode(one) async for page in pages for one in page.items]
                if len(found) == count and all(one.status.ready for one in found):
                    return found
                await asyncio.sleep(0.05)

    return wait
