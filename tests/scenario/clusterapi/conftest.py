"""A server with Cluster API's kinds, and its controllers at work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.client import Client
from laneway.kube.config import load
from laneway.kube.resource import Resource
from laneway.simcluster.clusterapi.controller import ClusterApi
from laneway.simcluster.clusterapi.install import install
from laneway.simcluster.scheduler import Scheduler
from support.clusterapi import (
    CLUSTERS,
    DEPLOYMENTS,
    MACHINES,
    NAMESPACE,
    SETS,
    VSPHERE_CLUSTERS,
    VSPHERE_MACHINES,
    Plain,
    Provider,
    Watched,
    cluster,
    vsphere_cluster,
)
from support.embedded import embedded

NODES: Resource[Plain] = Resource("", "v1", "nodes", False, Plain, "Node")
JOBS: Resource[Plain] = Resource("batch", "v1", "jobs", True, Plain, "Job")
PODS: Resource[Plain] = Resource("", "v1", "pods", True, Plain, "Pod")


class World:
    """What a test sees, and what it may do."""

    def __init__(self, client: Client, kubeconfig: str) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.provider = Provider(client)
        self.clusters = Watched(client, CLUSTERS)
        self.deployments = Watched(client, DEPLOYMENTS)
        self.sets = Watched(client, SETS)
        self.machines = Watched(client, MACHINES)
        self.infra = Watched(client, VSPHERE_MACHINES)
        self.infra_clusters = Watched(client, VSPHERE_CLUSTERS)
        self.nodes = Watched(client, NODES)
        self.jobs = Watched(client, JOBS)
        self.pods = Watched(client, PODS)

    @property
    def watched(self) -> list[Watched]:
        return [one for one in vars(self).values() if isinstance(one, Watched)]

    async def make(self, resource: Resource[Any], body: dict[str, Any]) -> None:
        about = {"apiVersion": resource.api_version, "kind": resource.kind}
        await self.client.create(resource, {**about, **body}, NAMESPACE)

    async def a_cluster(self) -> None:
        """One whose infrastructure is there."""
        await self.make(VSPHERE_CLUSTERS, vsphere_cluster())
        await self.make(CLUSTERS, cluster())
        await self.provider.cluster()

    async def machines_of(self, count: int) -> list[Plain]:
        """VSphereMachines, once there are so many."""
        return await self.infra.until(lambda found: len(found) == count)

    jobs_resource = JOBS
    pods_resource = PODS


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[str]:
    async with embedded(tmp_path) as kubeconfig:
        yield kubeconfig


@pytest.fixture
async def world(server: str) -> AsyncIterator[World]:
    config = load(server)
    kubeconfig = await asyncio.to_thread(Path(server).read_bytes)
    async with (
        Client(config) as client,
        Client(config) as acting,
        Client(config) as scheduling,
        asyncio.TaskGroup() as tasks,
    ):
        await install(client)
        found = World(client, server)
        running = [
            tasks.create_task(one)
            for one in (
                ClusterApi(acting, lambda: kubeconfig).run(),
                Scheduler(scheduling).run(),
                *(watched.informer.run() for watched in found.watched),
            )
        ]
        for watched in found.watched:
            await watched.informer.synced.wait()
        yield found
        for task in running:
            task.cancel()
