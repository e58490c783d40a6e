"""Writes of guest clusters: pools that are new, or are to have more machines or other ones."""

from __future__ import annotations

from msgspec.structs import replace

from laneway.controllers.machine_pools.judged import with_cluster
from laneway.controllers.machine_pools.look import Managed
from laneway.controllers.machine_pools.reading import mistakes_of, read_config
from laneway.controllers.machine_pools.writes.case import (
    NOTHING,
    Case,
    Harvesters,
    Outcome,
    judged,
    pools_of,
)
from laneway.core.refusals import MachinePoolInvalid
from laneway.kube.rancher import GuestCluster, MachinePool
from laneway.kube.resource import key_of


def changed_pools(old: GuestCluster | None, new: GuestCluster) -> frozenset[str]:
    """The names of the pools that are judged; empty: the write asks for nothing."""
    if new.metadata.deletion_timestamp:
        return frozenset()
    before = {pool.name: pool for pool in pools_of(old)}
    return frozenset(
        pool.name for pool in pools_of(new) if _asks_for_more(before.get(pool.name), pool)
    )


def of_cluster(
    old: GuestCluster | None, new: GuestCluster, managed: Managed, harvesters: Harvesters
) -> Outcome:
    """What there is to say of a guest cluster that is created or changed."""
    changed = changed_pools(old, new)
    if not changed:
        return NOTHING
    refs = {pool.name: pool.machine_config_ref for pool in pools_of(old)}
    replaced = frozenset(
        pool.name
        for pool in pools_of(new)
        if refs.get(pool.name, pool.machine_config_ref) != pool.machine_config_ref
    )
    after = _with_removed(old, new)
    case = Case(
        before=old,
        after=after,
        managed=managed if old is None else with_cluster(managed, old),
        managed_after=with_cluster(managed, after),
        changed=changed,
        replaced={key_of(new): replaced},
    )
    return _mistakes(case, new) + judged(case, harvesters)


def _asks_for_more(old: MachinePool | None, new: MachinePool) -> bool:
    if old is None or set(mistakes_of(new)) - set(mistakes_of(old)):
        return True
    rolls_otherwise = new.rolling_update != old.rolling_update and new.desired > 0
    is_other = new.machine_config_ref != old.machine_config_ref
    return is_other or rolls_otherwise or new.desired > old.desired


def _with_removed(old: GuestCluster | None, new: GuestCluster) -> GuestCluster:
    """The new cluster, and pools without machines in place of those that it no longer has."""
    rke = new.spec.rke_config
    if rke is None:
        return new
    names = {pool.name for pool in rke.machine_pools}
    gone = [replace(pool, quantity=0) for pool in pools_of(old) if pool.name not in names]
    pools = replace(rke, machine_pools=[*rke.machine_pools, *gone])
    return replace(new, spec=replace(new.spec, rke_config=pools)) if gone else new


def _mistakes(case: Case, new: GuestCluster) -> Outcome:
    """What is wrong in the changed pools, whatever Harvester clusters have."""
    found = NOTHING
    before = {pool.name: set(mistakes_of(pool)) for pool in pools_of(case.before)}
    for number, pool in enumerate(new.pools):
        if pool.name not in case.changed:
            continue
        path, ref = f"spec.rkeConfig.machinePools[{number}]", pool.machine_config_ref
        refusals = [
            MachinePoolInvalid(f"{path}.{problem.field}", str(problem), pool.name)
            for problem in mistakes_of(pool)
            if problem not in before.get(pool.name, ())
        ]
        config = case.managed.configs.get((ref.kind, new.metadata.namespace, ref.name))
        if config is None:
            words = f"Laneway did not check pool {pool.name}: there is no {ref.kind} {ref.name}."
            found += Outcome(unchecked=(words,))
        else:
            refusals += [
                MachinePoolInvalid(
                    f"{problem.field} of {ref.kind} {ref.name}", str(problem), pool.name
                )
                for problem in read_config(config)[1]
            ]
        found += Outcome(tuple(refusals))
    return found
