"""What simulated nodes need besides agents: kubelets, and for all of them a scheduler and KubeVirt.

They reach the API server as they would on a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.roles.booting import HostKubelet
from laneway.roles.hosts import NodeHost
from laneway.simcluster.kubevirt.controller import KubeVirt
from laneway.simcluster.scheduler import Scheduler


@contextlib.asynccontextmanager
async def simulated_cluster(
    config: ClusterConfig, kubevirts: ClusterConfig, hosts: Sequence[NodeHost]
) -> AsyncIterator[None]:
    """Run them until the block ends; it begins once every kubelet takes pods.

    `kubevirts`: as whom KubeVirt's controller asks.
    """
    runtimes = {host.node: host.runtime for host in hosts if host.runtime is not None}
    if not runtimes:
        yield
        return
    folders = {host.node: host.kubelet for host in hosts}
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(_remove_sockets, [folders[node] for node in runtimes])

        async def client(config: ClusterConfig = config) -> Client:
            """One for each, whose watches leave connections to write with."""
            return await stack.enter_async_context(Client(config))

        kubelets = [
            HostKubelet(host, await client(), host.runtime)
            for host in hosts
            if host.runtime is not None
        ]
        scheduler, kubevirt = Scheduler(await client()), KubeVirt(await client(kubevirts), runtimes)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        work = [scheduler.run(), kubevirt.run(), *(kubelet.run() for kubelet in kubelets)]
        running = [tasks.create_task(one) for one in work]
        for kubelet in kubelets:
            await kubelet.ready.wait()
        try:
            yield
        finally:
            for task in running:
                task.cancel()


def _remove_sockets(folders: Sequence[str]) -> None:
    """Leave a data directory of plain files, which any program can copy."""
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_socket():
                path.unlink(missing_ok=True)
