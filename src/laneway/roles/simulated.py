"""What simulated nodes need besides agents: kubelets, and for all of them a scheduler and KubeVirt.

They reach the API server as they would on a cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from laneway.host.hardware import Hardware
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.roles.boots import in_each_boot
from laneway.roles.hosts import NodeHost
from laneway.sim.kubelet.kubelet import Kubelet
from laneway.simcluster.kubevirt.controller import KubeVirt
from laneway.simcluster.node import NodeKubelet, say_silent
from laneway.simcluster.runtime import Runtime
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
            _Kubelet(host, await client(), host.runtime)
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


class _Kubelet:
    """The kubelet of a node, in each boot of its host."""

    def __init__(self, host: NodeHost, client: Client, runtime: Runtime) -> None:
        self.ready = asyncio.Event()
        """Set once the first takes pods."""
        self._host = host
        self._client = client
        self._runtime = runtime

    async def run(self) -> None:
        """Run until cancelled."""
        await in_each_boot(self._host.hardware, self._boot, self._went_down)

    async def _boot(self, _hardware: Hardware) -> None:
        kubelet = Kubelet(self._host.kubelet)
        node = NodeKubelet(self._host.node, self._client, kubelet, self._runtime)
        node.ready = self.ready
        await node.run()

    async def _went_down(self) -> None:
        self._runtime.reboot()
        await say_silent(self._client, self._host.node)


def _remove_sockets(folders: Sequence[str]) -> None:
    """Leave a data directory of plain files, which any program can copy."""
    for folder in folders:
        for path in Path(folder).rglob("*"):
            if path.is_socket():
                path.unlink(missing_ok=True)
