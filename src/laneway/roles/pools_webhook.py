"""The webhook for machine pools: it runs in Rancher's management cluster and reads Harvester's.

It is served as the other webhook is. It is ready without any Harvester cluster: then writes pass
with a warning, instead of without one.
"""

from __future__ import annotations

import asyncio
from typing import Any

from prometheus_client import CollectorRegistry

from laneway.admission.machine_pools.harvesters import FollowedHarvesters
from laneway.admission.machine_pools.kinds import PoolRules
from laneway.admission.machine_pools.managed import ManagedSource
from laneway.admission.machine_pools.metrics import PoolMetrics
from laneway.admission.world import World
from laneway.kube.client import Client
from laneway.roles.webhook import Webhook


class PoolCaches:
    """What it knows. Run `run` in a task, and answer once nothing is waited for."""

    def __init__(self, managed: ManagedSource, harvesters: FollowedHarvesters) -> None:
        self.world = World()
        """Nothing: its rules look at these caches themselves."""
        self._managed = managed
        self._harvesters = harvesters

    def waiting_for(self) -> list[str]:
        """The kinds of the management cluster of which not everything is known yet."""
        return self._managed.waiting_for()

    async def run(self) -> None:
        """Keep the caches until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._managed.run())
            tasks.create_task(self._harvesters.run())


def pools_webhook(
    client: Client,
    registry: CollectorRegistry,
    kubeconfigs: str,
    *,
    refuses: bool,
    **serving: Any,
) -> Webhook:
    """One such webhook. `kubeconfigs`: a folder (`harvesters`); `serving`: as of `Webhook`.

    What it admits counts at once only where `client_ca` keeps others from asking.
    """
    metrics = PoolMetrics(registry)
    managed = ManagedSource(client)
    harvesters = FollowedHarvesters(kubeconfigs, metrics)
    remembers = bool(serving.get("client_ca"))
    rules = PoolRules(managed, harvesters, metrics, refuses=refuses, remembers=remembers)
    caches = PoolCaches(managed, harvesters)
    return Webhook(client, registry, caches, kinds=rules.kinds, **serving)
