"""What machines of Cluster API need besides Laneway's manager: Cluster API's core, and a scheduler.

Machines on KubeVirt need their provider, too, which is simulated with the core.

They reach the API server as they would on a cluster. Workload clusters are this same server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.simcluster.clusterapi.controller import ClusterApi
from laneway.simcluster.clusterapi.objects import Provider
from laneway.simcluster.scheduler import Scheduler


@contextlib.asynccontextmanager
async def simulated_cluster_api(
    config: ClusterConfig, kubeconfig: str, provider: Provider, *, schedule: bool
) -> AsyncIterator[None]:
    """Run it until the block ends; its kinds must be there.

    `kubeconfig`: the file by which workload clusters are reached. `schedule`: no other scheduler
    runs.
    """
    text = await asyncio.to_thread(Path(kubeconfig).read_bytes)
    async with Client(config) as acting, Client(config) as scheduling, asyncio.TaskGroup() as tasks:
        work = [ClusterApi(acting, lambda: text, provider).run()]
        if schedule:
            work.append(Scheduler(scheduling).run())
        running = [tasks.create_task(one) for one in work]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
