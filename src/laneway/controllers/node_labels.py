"""Keeps the labels of the cluster's node by which others find it, as `core.node_labels` says.

Only these labels, and the annotation that notes some of them, are patched, so nothing else on the
node can be lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from laneway.api import CoreNode, SRIOVGPUDevice
from laneway.controllers.gpu_workloads import GpuWorkloads
from laneway.controllers.metrics import AgentMetrics
from laneway.controllers.written import Written
from laneway.core import node_labels
from laneway.core.fleet.migration import Group, branch, ecc_of
from laneway.core.gpu.serving import serving
from laneway.core.inventory import Inventory
from laneway.core.pci import PciAddress
from laneway.kube.client import Client
from laneway.kube.controller import Retry, run_workers
from laneway.kube.errors import ForbiddenError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import served

log = logging.getLogger(__name__)

REFUSED_SECONDS = 30.0
"""How long a change that the server has forbidden is not sent again, whatever happens meanwhile."""


class NodeLabels:
    """The labels of one node."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[CoreNode],
        gpus: Informer[SRIOVGPUDevice],
        *,
        workloads: GpuWorkloads,
        metrics: AgentMetrics,
    ) -> None:
        self._node = node
        self._client = client
        self._informer = informer
        self._gpus = gpus
        self._workloads = workloads
        self._metrics = metrics
        self._resource = served(CoreNode)
        self._queue: WorkQueue[str] = WorkQueue()
        self._inventory: Inventory | None = None
        self._written = Written()
        self._refused: tuple[dict[str, Any], float] = {}, 0.0

    def observed(self, inventory: Inventory) -> None:
        """Take a new inventory."""
        self._inventory = inventory
        self._queue.add(self._node)

    async def run(self) -> None:
        """Work until cancelled."""
        self._informer.subscribe(lambda _before, _after: self._queue.add(self._node))
        self._gpus.subscribe(lambda _before, _after: self._queue.add(self._node))
        self._workloads.subscribe(lambda: self._queue.add(self._node))
        await run_workers(self._queue, self._reconcile)

    async def _reconcile(self, name: str) -> Retry | None:
        node, inventory = self._informer.store.get(name), self._inventory
        if inventory is None:
            return None
        if node is None:
            log.debug("no node %s in the cluster yet", name)
            return None
        if lag := self._written.lag(name, node.metadata):
            return Retry(lag)
        vendors = serving(inventory, self._workloads.for_containers).vendors
        metadata = node_labels.change(
            node.metadata.labels,
            node.metadata.annotations,
            {
                **node_labels.own(inventory, vendors),
                **self._for_migration(inventory, node.metadata.labels),
            },
            None if inventory.errors else node_labels.features(inventory),
        )
        return await self._write(name, metadata) if metadata else None

    def _for_migration(self, inventory: Inventory, before: Iterable[str]) -> node_labels.Labels:
        if not self._gpus.synced.is_set():
            return {}
        groups = (self._group(inventory, gpu) for gpu in self._gpus.store)
        return node_labels.for_migration(inventory, groups, before)

    @staticmethod
    def _group(inventory: Inventory, gpu: SRIOVGPUDevice) -> str:
        """As the GPU's object says, which also knows what an earlier agent was told."""
        try:
            function = inventory.function(PciAddress.parse(gpu.spec.address))
        except ValueError:
            return ""
        if function is None:
            return ""
        return Group(
            device=function.device,
            subsystem=function.subsystem_device,
            ecc=ecc_of(gpu.status.ecc_mode),
            branch=branch(gpu.status.driver_version),
        ).label

    async def _write(self, name: str, metadata: dict[str, Any]) -> Retry | None:
        refused, until = self._refused
        if metadata == refused and (wait := until - time.monotonic()) > 0:
            return Retry(wait)
        try:
            answer = await self._client.patch(self._resource, name, {"metadata": metadata})
        except ForbiddenError as error:  # as where the chart is older than the agent
            if metadata != refused:
                log.warning("the labels of node %s are not up to date: %s", name, error)
            self._refused = metadata, time.monotonic() + REFUSED_SECONDS
            return Retry(REFUSED_SECONDS)
        self._refused = {}, 0.0
        self._written.note(answer.metadata)
        self._metrics.wrote("patch", self._resource.kind)
        return None
