"""The pools of guest clusters with what speaks against them.

Clusters are judged one after the other, the oldest first: machines that an older one is still to
get count as taken, because nothing else is reserved between a pool's change and its VMs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.controllers.machine_pools.reading import (
    Asked,
    Existing,
    Problem,
    machines_of,
    pool_of,
    read_config,
)
from laneway.core.ledger.facts import Consumer
from laneway.core.machine_pools.judge import Judgement, judge
from laneway.core.machine_pools.pool import Pool
from laneway.kube.rancher import CONFIGS, GuestCluster, MachineConfig, MachinePool


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """One pool of a guest cluster."""

    spec: MachinePool
    asked: Asked = Asked()
    pool: Pool
    problems: tuple[Problem, ...] = ()
    """Mistakes in its objects; with some, it is not judged."""
    config: MachineConfig | None = None


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
    rke = cluster.spec.rke_config
    return rke is not None and any(
        one.machine_config_ref.kind in CONFIGS for one in rke.machine_pools
    )


def judged(
    managed: Managed, supply: Supply, replaced: Mapping[str, frozenset[str]] | None = None
) -> list[ClusterState]:
    """All guest clusters on Harvester. `replaced`: pools whose machines a change replaces."""
    found: list[ClusterState] = []
    before: list[Pool] = []
    by_age = sorted(
        filter(on_harvester, managed.clusters),
        key=lambda one: (one.metadata.creation_timestamp or "~", one.metadata.name),
    )
    for cluster in by_age:
        changed = (replaced or {}).get(cluster.metadata.name, frozenset())
        pools = tuple(_states(cluster, managed, supply, changed))
        valid = [one.pool for one in pools if not one.problems]
        found.append(
            ClusterState(
                cluster=cluster,
                pools=pools,
                judgement=judge(valid, supply.ledger, supply.free, before),
            )
        )
        name = cluster.metadata.name
        before += [replace(pool, name=f"{name}/{pool.name}") for pool in valid if pool.coming]
    return sorted(
        found, key=lambda one: (one.cluster.metadata.namespace, one.cluster.metadata.name)
    )


def _states(
    cluster: GuestCluster, managed: Managed, supply: Supply, replaced: frozenset[str]
) -> Iterable[PoolState]:
    meta = cluster.metadata
    pools: Sequence[MachinePool] = ()
    if cluster.spec.rke_config is not None:
        pools = cluster.spec.rke_config.machine_pools
    for spec in pools:
        ref = spec.machine_config_ref
        if ref.kind not in CONFIGS:
            continue  # its machines are elsewhere
        config = managed.configs.get((ref.kind, meta.namespace, ref.name))
        if config is None:
            missing = Problem("machineConfigRef", f"there is no {ref.kind} {ref.name}")
            pool = Pool(name=spec.name, quantity=0)
            yield PoolState(spec=spec, pool=pool, problems=(missing,))
            continue
        asked, mistakes = read_config(config)
        named = managed.machines.get((meta.namespace, meta.name, spec.name), ())
        machines = machines_of(supply.ledger, cluster, spec.name, asked.namespace, named)
        existing = Existing(
            machines=machines,
            replaced=frozenset(
                machine
                for machine in machines
                if spec.name in replaced or _is_outdated(managed, config, ref.kind, machine)
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
