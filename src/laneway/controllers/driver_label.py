"""Keeps one label on the cluster's node: whether its GPUs need NVIDIA's host driver.

The driver's DaemonSet selects by it. Only this label is patched, so nothing else on the node can
be lost, and it is taken away when the last such GPU goes.
"""

from __future__ import annotations

import logging

from laneway.api import CoreNode
from laneway.controllers.metrics import AgentMetrics
from laneway.core import keys
from laneway.core.inventory import Inventory
from laneway.kube.client import Client
from laneway.kube.controller import run_workers
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import served

log = logging.getLogger(__name__)


class DriverLabel:
    """The label `driver-needed` of one node."""

    def __init__(
        self, node: str, client: Client, informer: Informer[CoreNode], metrics: AgentMetrics
    ) -> None:
        self._node = node
        self._client = client
        self._informer = informer
        self._metrics = metrics
        self._resource = served(CoreNode)
        self._queue: WorkQueue[str] = WorkQueue()
        self._needed: bool | None = None
        """None until it is known."""

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory; one with gaps proves that a GPU is there, not that none is."""
        if any(function.sriov_gpu for function in inventory.functions):
            self._needed = True
        elif not inventory.errors:
            self._needed = False
        self._queue.add(self._node)

    async def run(self) -> None:
        """Work until cancelled."""
        self._informer.subscribe(lambda _before, _after: self._queue.add(self._node))
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> None:
        node = self._informer.store.get(name)
        if self._needed is None:
            return
        if node is None:
            log.debug("no node %s in the cluster yet", name)
            return
        wanted = "true" if self._needed else None
        if node.metadata.labels.get(keys.LABEL_DRIVER_NEEDED) == wanted:
            return
        patch = {"metadata": {"labels": {keys.LABEL_DRIVER_NEEDED: wanted}}}
        await self._client.patch(self._resource, name, patch)
        self._metrics.wrote("patch", self._resource.kind)
