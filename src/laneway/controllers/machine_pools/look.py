"""One look at a management cluster and at the Harvester cluster on which its machines are.

Both are read with the rights of the user. What may not be read is told, with what follows from it;
without the devices of Harvester, or the clusters of Rancher, there is nothing to tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict, replace

from laneway.api import decode
from laneway.api.setting import Setting
from laneway.controllers.ledger.snapshot import look as look_at_ledger
from laneway.controllers.machine_pools import supply
from laneway.controllers.machine_pools.vms import MachineVms
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import compute
from laneway.core.machine_pools.compute import Overcommit
from laneway.kube import rancher
from laneway.kube.client import Client
from laneway.kube.errors import ForbiddenError, NotFoundError
from laneway.kube.pods import PODS
from laneway.kube.rancher import GuestCluster, InfraMachine, MachineConfig, PoolMachine
from laneway.kube.resource import KubeObject, Resource, served

T = TypeVar("T", bound=KubeObject)

OVERCOMMIT = "overcommit-config"
"""Harvester's setting."""
PATIENCE_SECONDS = 3600.0


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """The CPU and memory of a Harvester cluster."""

    free: Mapping[str, Mapping[str, int]] | None = None
    """Free CPU and memory by node; None: not known."""
    needs: Mapping[Consumer, Mapping[str, int]] = {}
    """What the pods of VMs request of that."""
    overcommit: Overcommit = compute.DEFAULT
    unknown: tuple[str, ...] = ()
    """What could not be read, and what follows: a sentence each."""


class Supply(Sizes, frozen=True, kw_only=True, dict=True):
    """What a Harvester cluster has."""

    ledger: Ledger

    @cached_property
    def vms(self) -> MachineVms:
        """The machines among its VMs."""
        return MachineVms(self.ledger)


class Managed(msgspec.Struct, frozen=True, kw_only=True):
    """What a management cluster has."""

    clusters: tuple[GuestCluster, ...] = ()
    configs: Mapping[tuple[str, str, str], MachineConfig] = {}
    """By kind, namespace and name."""
    machines: Mapping[tuple[str, str, str], tuple[str, ...]] = {}
    """Names of VMs by namespace, cluster and pool."""
    unread: frozenset[str] = frozenset()
    """Kinds of configurations that may not be read."""
    made_of: Mapping[tuple[str, str, str], Mapping[str, Any]] = {}
    """What machines were made of: options of the driver, by kind of the configuration, namespace
    and name of the VM."""
    unknown: tuple[str, ...] = ()
    since: str = ""
    """Machines that no VM was made for since then are not expected any more (`patience`); empty:
    all are expected."""


def patience(now: datetime) -> str:
    """An hour ago, as Kubernetes writes it: for so long a pool may make no VM.

    Rounded down to ten minutes, so that looks at the same objects are the same.
    """
    then = now - timedelta(seconds=PATIENCE_SECONDS)
    return f"{then.replace(minute=then.minute // 10 * 10):%Y-%m-%dT%H:%M:00Z}"


async def harvester(client: Client) -> Supply:
    """What a Harvester cluster has. Raises KubeError; NotFoundError where Laneway is missing."""
    seen, found = await asyncio.gather(look_at_ledger(client), sizes(client))
    return supplied(
        build(seen.facts),
        replace(found, unknown=tuple(dict.fromkeys((*seen.unknown, *found.unknown)))),
    )


def supplied(ledger: Ledger, found: Sizes) -> Supply:
    """The same, put together."""
    return Supply(ledger=ledger, **asdict(found))


async def sizes(client: Client) -> Sizes:
    """The CPU and memory of a Harvester cluster, as far as they may be read. Raises KubeError."""
    unknown: list[str] = []
    nodes, pods, settings = await asyncio.gather(
        _perhaps(client, supply.NODES, unknown, "CPU and memory are not checked"),
        _perhaps(client, PODS, unknown, "CPU and memory are not checked"),
        _perhaps(client, served(Setting), unknown, "the default overcommitment is assumed"),
    )
    known = None if nodes is None or pods is None else supply.free(nodes, pods)
    return Sizes(
        free=known,
        needs=supply.of_vms(pods or ()),
        overcommit=overcommit(settings or ()),
        unknown=tuple(dict.fromkeys(unknown)),
    )


async def management(client: Client, namespace: str) -> Managed:
    """What a management cluster has, in one namespace or, if empty, in all. Raises KubeError."""
    unknown: list[str] = []
    clusters = await _all(client, rancher.GUEST_CLUSTERS, namespace, unknown)
    configs: dict[tuple[str, str, str], MachineConfig] = {}
    unread: set[str] = set()
    made_of: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for kind, resource in rancher.CONFIGS.items():
        why = f"pools with a {kind} are not judged"
        found = await _perhaps(client, resource, unknown, why, namespace)
        if found is None:
            unread.add(kind)
        for one in found or ():
            configs[kind, one.metadata.namespace, one.metadata.name] = one
        why = "machines that a rolling update replaces are recognised by their devices alone"
        infra = rancher.INFRA_MACHINES[kind]
        for machine in await _perhaps(client, infra, unknown, why, namespace) or ():
            made_of[kind, machine.metadata.namespace, vm_of(machine)] = machine.options
    why = "machines are recognised by the labels of their VMs"
    machines: list[PoolMachine] = []
    for version in rancher.POOL_MACHINES:
        machines = machines or await _perhaps(client, version, unknown, why, namespace) or []
    return Managed(
        clusters=tuple(sorted(clusters, key=lambda one: one.metadata.name)),
        configs=configs,
        machines=by_pool(machines),
        unread=frozenset(unread),
        made_of=made_of,
        since=patience(datetime.now(UTC)),
        unknown=tuple(dict.fromkeys(unknown)),
    )


def of_documents(documents: Iterable[Mapping[str, Any]]) -> Managed:
    """The same from objects in files. Raises ValueError for one that cannot be read."""
    clusters: list[GuestCluster] = []
    configs: dict[tuple[str, str, str], MachineConfig] = {}
    for document in documents:
        kind, group = document.get("kind"), str(document.get("apiVersion", "")).partition("/")[0]
        raw = msgspec.json.encode(document)
        if (kind, group) == ("Cluster", rancher.GROUP):
            clusters.append(decode(GuestCluster, raw))
        elif group == rancher.CONFIG_GROUP and kind in rancher.CONFIGS:
            one = decode(MachineConfig, raw)
            configs[str(kind), one.metadata.namespace, one.metadata.name] = one
    return Managed(clusters=tuple(clusters), configs=configs)


def vm_of(machine: InfraMachine) -> str:
    """The name of a machine's VM: Rancher replaces what a host name cannot have."""
    return machine.metadata.name.replace(".", "-")


def by_pool(machines: Iterable[PoolMachine]) -> dict[tuple[str, str, str], tuple[str, ...]]:
    """The names of machines' VMs by namespace, cluster and pool."""
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for one in machines:
        pool = one.metadata.labels.get(rancher.LABEL_MACHINE_POOL, "")
        key = one.metadata.namespace, one.spec.cluster_name, pool
        if pool and one.spec.infrastructure_ref.name:
            found[key] = (*found.get(key, ()), one.spec.infrastructure_ref.name)
    return found


def overcommit(settings: Iterable[Setting]) -> Overcommit:
    """What Harvester's setting says, or its default."""
    for one in settings:
        if one.metadata.name == OVERCOMMIT:
            for text in (one.value, one.default):
                try:
                    found = msgspec.json.decode(text or "null", type=dict[str, int] | None)
                except msgspec.MsgspecError:
                    continue
                if found:
                    return Overcommit(
                        found.get("cpu") or compute.DEFAULT.cpu,
                        found.get("memory") or compute.DEFAULT.memory,
                    )
    return compute.DEFAULT


async def _all(
    client: Client, resource: Resource[T], namespace: str, unknown: list[str]
) -> list[T]:
    found = []
    async for page in client.list(resource, namespace=namespace):
        for item in page.items:
            try:
                found.append(resource.decode(item))
            except ValueError as error:
                unknown.append(f"{error}; it is left out")
    return found


async def _perhaps(
    client: Client, resource: Resource[T], unknown: list[str], why: str, namespace: str = ""
) -> list[T] | None:
    try:
        return await _all(client, resource, namespace, unknown)
    except ForbiddenError:
        unknown.append(f"you may not list {resource}: {why}")
        return None
    except NotFoundError:
        return []
