"""The pools of guest clusters with what speaks against them.

Clusters are judged one after the other, the oldest first: machines that an older one is still to
get count as taken, because nothing else is reserved between a pool's change and its VMs. Where one
is about to be written, all others were there before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.controllers.machine_pools.reading import (
    Asked,
    Existing,
    Problem,
    pool_of,
    read_config,
)
from laneway.core.ledger.facts import Consumer, ConsumerKind
from laneway.core.machine_pools.judge import Judgement, judge
from laneway.core.machine_pools.pool import Pool
from laneway.kube.rancher import CONFIGS, GuestCluster, MachineConfig, MachinePool
from laneway.kube.resource import Key, key_of

Replaced = Mapping[Key, frozenset[str]]
"""Names of pools by their cluster."""
NONE_REPLACED: Replaced = {}


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of a guest cluster."""

    spec: MachinePool
    asked: Asked = Asked()
    pool: Pool
    problems: tuple[Problem, ...] = ()
    """Mistakes in its objects; with some, it is not judged."""
    config: MachineConfig | None = None
    unread: bool = False
    """Whether its configuration may not be read; then that is its only problem."""


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """One guest cluster."""

    cluster: GuestCluster
    pools: tuple[PoolState, ...]
    judgement: Judgement

    @property
    def fits(self) -> bool:
        """Whether nothing speaks against its pools."""
        return not self.judgement.refusals and not any(one.problems for one in self.pools)


def on_harvester(cluster: GuestCluster) -> bool:
    """Whether a cluster has pools of a machine driver for Harvester."""
    return any(one.machine_config_ref.kind in CONFIGS for one in cluster.pools)


def judged(
    managed: Managed, supply: Supply, replaced: Replaced = NONE_REPLACED
) -> list[ClusterState]:
    """All guest clusters on Harvester. `replaced`: pools whose machines a change replaces."""
    found: list[ClusterState] = []
    before: list[Pool] = []
    by_age = sorted(
        filter(on_harvester, managed.clusters),
        key=lambda one: (one.metadata.creation_timestamp or "~", one.metadata.name),
    )
    for cluster in by_age:
        pools = tuple(_states(cluster, managed, supply, replaced))
        found.append(_judged(cluster, pools, supply, before))
        before += _to_come(cluster, pools, managed.since)
    return sorted(
        found, key=lambda one: (one.cluster.metadata.namespace, one.cluster.metadata.name)
    )


def judged_one(
    managed: Managed, supply: Supply, cluster: GuestCluster, replaced: Replaced = NONE_REPLACED
) -> ClusterState:
    """One guest cluster that is about to be written, whether or not it is there already.

    Who may write it need not know the VMs and clusters of others, so these are not named.
    """
    key = key_of(cluster)
    others = (
        pool
        for other in managed.clusters
        if key_of(other) != key
        for pool in _to_come(other, _states(other, managed, supply, NONE_REPLACED), managed.since)
    )
    before = [replace(pool, name=f"other pool {n}") for n, pool in enumerate(others, 1)]
    pools = tuple(_states(cluster, managed, supply, replaced))
    own = {machine.vm for state in pools for machine in state.pool.machines}

    def naming(consumer: Consumer) -> str:
        if consumer in own:
            return str(consumer)
        return "pods" if consumer.kind is ConsumerKind.POD else "VMs of others"

    return _judged(cluster, pools, supply, before, naming)


def with_cluster(managed: Managed, cluster: GuestCluster) -> Managed:
    """A management cluster once a guest cluster is written."""
    key = key_of(cluster)
    others = (one for one in managed.clusters if key_of(one) != key)
    return replace(managed, clusters=(*others, cluster))


def with_config(managed: Managed, kind: str, config: MachineConfig) -> Managed:
    """The same once a machine configuration is."""
    key = kind, config.metadata.namespace, config.metadata.name
    return replace(managed, configs={**managed.configs, key: config})


def _judged(
    cluster: GuestCluster,
    pools: tuple[PoolState, ...],
    supply: Supply,
    before: Sequence[Pool],
    naming: Callable[[Consumer], str] = str,
) -> ClusterState:
    valid = [one.pool for one in pools if not one.problems]
    judgement = judge(valid, supply.ledger, supply.free, before, naming)
    return ClusterState(cluster=cluster, pools=pools, judgement=judgement)


def _to_come(cluster: GuestCluster, pools: Iterable[PoolState], since: str) -> Iterator[Pool]:
    """Pools with machines that have no VM yet; for a VM, the ledger keeps the devices.

    A pool that will not make any takes nothing from others.
    """
    for state in pools:
        if cluster.metadata.deletion_timestamp or state.spec.paused:
            continue
        if _last_sign(cluster, state) < since:
            continue
        there = tuple(one._replace(placed=True) for one in state.pool.machines)
        pool = replace(
            state.pool, name=f"{cluster.metadata.name}/{state.pool.name}", machines=there
        )
        if not state.problems and pool.coming:
            yield pool


def _last_sign(cluster: GuestCluster, state: PoolState) -> str:
    """When a pool was changed or had its newest VM made; as late as can be, where nothing tells."""
    times = [cluster.changed or cluster.metadata.creation_timestamp]
    if state.config is not None:
        times.append(state.config.changed or state.config.metadata.creation_timestamp)
    times += [one.created for one in state.pool.machines]
    return max(times) or "~"


def _states(
    cluster: GuestCluster, managed: Managed, supply: Supply, replaced: Replaced
) -> Iterator[PoolState]:
    meta = cluster.metadata
    changed = replaced.get(key_of(cluster), frozenset())
    for spec in cluster.pools:
        ref = spec.machine_config_ref
        if ref.kind not in CONFIGS:
            continue  # its machines are elsewhere
        config = managed.configs.get((ref.kind, meta.namespace, ref.name))
        if config is None:
            unread = ref.kind in managed.unread
            why = "may not be read by you" if unread else "does not exist"
            missing = Problem("machineConfigRef", f"{ref.kind} {ref.name} {why}")
            pool = Pool(name=spec.name, quantity=max(spec.desired, 0))
            yield PoolState(spec=spec, pool=pool, problems=(missing,), unread=unread)
            continue
        asked, mistakes = read_config(config)
        named = managed.machines.get((meta.namespace, meta.name, spec.name), ())
        machines = supply.vms.of(cluster, spec.name, asked.namespace, named)
        existing = Existing(
            machines=machines,
            replaced=frozenset(
                machine
                for machine in machines
                if spec.name in changed or _is_outdated(managed, config, ref.kind, machine)
            ),
            needs=supply.needs,
            overcommit=supply.overcommit,
        )
        pool, others = pool_of(spec, asked, supply.ledger, existing)
        yield PoolState(
            spec=spec, asked=asked, pool=pool, problems=(*mistakes, *others), config=config
        )


def _is_outdated(managed: Managed, config: MachineConfig, kind: str, machine: Consumer) -> bool:
    """Whether a machine was made of an earlier configuration than its pool's."""
    made_of = managed.made_of.get((kind, config.metadata.namespace, machine.name))
    return made_of is not None and config.options is not None and made_of != config.options
