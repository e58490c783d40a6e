"""Gives the MigConfigurations of one node the node's label, which no other controller puts on them.

An agent watches its own node's objects only, and chooses them by that label. What users, charts and
other clients write of this kind has none, so the few objects without one are watched as well, until
the agent whose node they speak of has claimed them.
"""

from __future__ import annotations

import logging

from laneway.api import MigConfiguration
from laneway.controllers.metrics import AgentMetrics
from laneway.core import keys
from laneway.kube.client import Client
from laneway.kube.controller import run_workers
from laneway.kube.errors import NotFoundError
from laneway.kube.informer import Informer
from laneway.kube.queue import WorkQueue
from laneway.kube.resource import served

log = logging.getLogger(__name__)

UNLABELLED = f"!{keys.LABEL_NODE}"
"""The label selector of the informer."""


class MigLabels:
    """Labels what speaks of one node."""

    def __init__(
        self,
        node: str,
        client: Client,
        informer: Informer[MigConfiguration],
        metrics: AgentMetrics,
    ) -> None:
        self._node = node
        self._client = client
        self._informer = informer
        self._metrics = metrics
        self._resource = served(MigConfiguration)
        self._queue: WorkQueue[str] = WorkQueue()

    async def run(self) -> None:
        """Work until cancelled."""
        self._informer.subscribe(self._changed)
        await run_workers(self._queue, self._claim)

    def _changed(self, _before: MigConfiguration | None, after: MigConfiguration | None) -> None:
        if after is not None and after.spec.node_name == self._node:
            self._queue.add(after.metadata.name)

    async def _claim(self, name: str) -> None:
        stored = self._informer.store.get(name)
        if stored is None or stored.spec.node_name != self._node:
            return
        patch = {"metadata": {"labels": {keys.LABEL_NODE: self._node}}}
        try:
            await self._client.patch(self._resource, name, patch)
        except NotFoundError:
            return
        self._metrics.wrote("patch", self._resource.kind)
        log.info("labelled %s %s", self._resource.kind, name)
