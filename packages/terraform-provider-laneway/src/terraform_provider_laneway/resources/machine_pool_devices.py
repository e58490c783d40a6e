"""`laneway_machine_pool_devices`: the devices of the machines of a guest cluster's pool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from tf.schema import Attribute

from laneway.changes.errors import ChangeError, OvertakenError, UnfinishedError
from laneway.changes.machine_pools import Edit, Wanted, find, planned, refuse, store
from laneway.controllers.machine_pools import look as looking
from laneway.controllers.machine_pools.judged import ClusterState, PoolState, judged
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.controllers.machine_pools.reading import MOST_MACHINES
from laneway.core.ledger.facts import Phase
from laneway.core.machine_pools.device_info import HOST_DEVICES, MOST, VGPUS
from laneway.kube.client import Client
from laneway.kube.rancher import WORKSPACE
from laneway.views import machine_pools as views
from terraform_provider_laneway import mistakes
from terraform_provider_laneway.clusters import Choice
from terraform_provider_laneway.problems import ASK, ProblemError, incomplete, notice, problems_of
from terraform_provider_laneway.resource import ManagedResource
from terraform_provider_laneway.values import COUNTS, NUMBER, TEXT, State, is_unknown

_AGAIN_SECONDS = 2.0
_SECONDS = 1800
"""Machines are replaced one after the other, and each one boots."""


class MachinePoolDevices(ManagedResource):
    """The devices of a pool."""

    name: ClassVar[str] = "machine_pool_devices"
    key: ClassVar[tuple[str, ...]] = ("namespace", "cluster", "pool")
    subject: ClassVar[str] = "devices"
    seconds: ClassVar[int] = _SECONDS
    about: ClassVar[str] = (
        "Devices of the machines of a guest cluster's pool, on Rancher's management cluster. A "
        "change is refused unless all machines of the cluster can start then. Rancher replaces the "
        "machines of the pool, and Terraform waits until it has. Destroying it leaves the pool "
        "without devices."
    )
    attributes: ClassVar[tuple[Any, ...]] = (
        Attribute(
            "cluster",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the guest cluster.",
        ),
        Attribute(
            "namespace",
            TEXT,
            optional=True,
            computed=True,
            default=WORKSPACE,
            requires_replace=True,
            description=f"Its namespace on the management cluster. Default: `{WORKSPACE}`.",
        ),
        Attribute(
            "pool",
            TEXT,
            required=True,
            requires_replace=True,
            description="Name of the machine pool.",
        ),
        Attribute(
            "devices",
            COUNTS,
            required=True,
            description="How many devices of each resource a machine has: "
            '`{ "nvidia.com/NVIDIA_A2-4Q" = 1 }`.',
        ),
        Attribute(
            "machines",
            NUMBER,
            optional=True,
            description="How many machines the pool has. Default: as it is.",
        ),
        Attribute(
            "current_machines",
            NUMBER,
            computed=True,
            description="How many machines the pool is to have now.",
        ),
    )

    @property
    def cluster(self) -> Choice:
        return self.settings.managing

    def mistakes(self, config: State) -> list[ProblemError]:
        found = mistakes.requests(config, "devices", MOST)
        return found + mistakes.number(config, "machines", 0, MOST_MACHINES)

    async def check(self, client: Client, config: State) -> AsyncIterator[ProblemError]:
        managed = await looking.management(client, _namespace(config))
        try:
            find(managed, _title(config))
        except ChangeError as error:
            words = str(error).rstrip(".")
            if not words.endswith("?"):
                words += "."
            further = "The cluster has to be there when its pool gets devices."
            yield notice("Not checked", f"{words} {further}", ["cluster"])
            return
        supply = await self._supply()
        for why in (*managed.unknown, *supply.unknown):
            yield incomplete(why)
        try:
            edit = planned(managed, supply, _wanted(config))
            if edit.changes:
                refuse(edit)
                await store(client, edit, dry_run=True)
        except ChangeError as error:
            for problem in problems_of(error, ["devices"]):
                yield problem

    async def look(self, client: Client, state: State) -> State | None:
        _, _, found = await self._seen_pool(client, state)
        if found is None:
            return None
        namespace, current = _namespace(state), found.spec.desired
        decides = state.get("machines") is not None
        return {
            "id": f"{namespace}/{state['cluster']}/{state['pool']}",
            "cluster": state["cluster"],
            "namespace": namespace,
            "pool": state["pool"],
            "devices": dict(found.asked.devices),
            "machines": current if decides else None,
            "current_machines": current,
        }

    async def apply(self, client: Client, planned: State, current: State | None) -> None:
        del current
        await self._set(client, planned, _wanted(planned))

    async def remove(self, client: Client, current: State) -> None:
        _, _, found = await self._seen_pool(client, current)
        if found is None or not (found.asked.devices or _is_malformed(found)):
            return
        await self._set(client, current, _wanted(current)._replace(devices={}, quantity=None))

    async def _set(self, client: Client, state: State, wanted: Wanted) -> None:
        """Set the pool and wait until its machines are as desired. Raises ChangeError."""
        edit = await self._edit(client, state, wanted)
        refuse(edit)
        if edit.changes:
            try:
                await store(client, edit)
            except OvertakenError:  # Rancher writes its own annotations to the same objects.
                edit = await self._edit(client, state, wanted)
                refuse(edit)
                await store(client, edit)
        await self._rolled(client, state)

    async def _edit(self, client: Client, state: State, wanted: Wanted) -> Edit:
        managed = await looking.management(client, _namespace(state))
        return planned(managed, await self._supply(), wanted)

    async def _rolled(self, client: Client, state: State) -> None:
        end = asyncio.get_running_loop().time() + self.patience(state)
        while True:
            cluster, supply, found = await self._seen_pool(client, state)
            if found is None or cluster is None or not (left := _left(found, supply)):
                return
            if asyncio.get_running_loop().time() >= end:
                said = " ".join(views.words(found, cluster))
                raise UnfinishedError(
                    f"the machines of pool {found.spec.name} are not as desired within "
                    f"{self.patience(state)} s: {left}. {said}".rstrip(),
                    "Rancher goes on. To see how far it is: laneway pools show "
                    f"{state['cluster']} {found.spec.name}",
                )
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _seen_pool(
        self, client: Client, state: Mapping[str, Any]
    ) -> tuple[ClusterState | None, Supply, PoolState | None]:
        managed: Managed = await looking.management(client, _namespace(state))
        supply = await self._supply()
        wanted = state["cluster"], state["pool"]
        for cluster in judged(managed, supply):
            for pool in cluster.pools:
                if (cluster.cluster.metadata.name, pool.spec.name) != wanted:
                    continue
                if pool.unread:
                    [why] = pool.problems
                    raise ProblemError("Not allowed", f"{why}. {ASK}")
                return cluster, supply, pool
        return None, supply, None

    async def _supply(self) -> Supply:
        """What the cluster of the machines has."""
        client = await self._clusters.client(self.settings.cluster)
        return await looking.harvester(client)


def _is_malformed(found: PoolState) -> bool:
    """Whether the devices of a pool cannot be read; they may be any."""
    return any(one.field in (VGPUS.field, HOST_DEVICES.field) for one in found.problems)


def _left(found: PoolState, supply: Supply) -> str:
    """What of a pool is not as desired; empty where all is."""
    pool = found.pool
    phases = [supply.ledger.demands[machine.vm].phase for machine in pool.machines]
    waiting = sum(phase is not Phase.RUNNING for phase in phases)
    parts = {
        "to be replaced or removed": len(pool.leaving),
        "to be created": views.to_create(pool),
        "not running": waiting,
    }
    return ", ".join(f"{count} {what}" for what, count in parts.items() if count)


def _namespace(state: Mapping[str, Any]) -> str:
    given = state.get("namespace")
    return WORKSPACE if given is None or is_unknown(given) else str(given)


def _title(state: Mapping[str, Any]) -> str:
    return f"{_namespace(state)}/{state['cluster']}"


def _wanted(state: Mapping[str, Any]) -> Wanted:
    return Wanted(_title(state), state["pool"], dict(state["devices"]), state.get("machines"))
