"""Writes of machine configurations.

One is created before its cluster, so that its mistakes are told there; whether there is room, with
the cluster. Where one changes in any field, Rancher replaces all machines of its pools.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from laneway.controllers.machine_pools.judged import with_config
from laneway.controllers.machine_pools.look import Managed
from laneway.controllers.machine_pools.reading import Asked, read_config
from laneway.controllers.machine_pools.writes.case import (
    NOTHING,
    Case,
    Harvesters,
    Outcome,
    judged,
    pools_of,
)
from laneway.core.phrases import listed
from laneway.core.refusals import MachinePoolInvalid, NoNodeHasResource
from laneway.kube.rancher import GuestCluster, MachineConfig
from laneway.kube.resource import key_of


def of_config(
    kind: str,
    old: MachineConfig | None,
    new: MachineConfig,
    managed: Managed,
    harvesters: Harvesters,
) -> Outcome:
    """What there is to say of a configuration that is created, or of which any field changes."""
    if new.metadata.deletion_timestamp:
        return NOTHING
    asked, problems = read_config(new)
    before, known = (None, ()) if old is None else read_config(old)
    if problems:
        return Outcome(
            tuple(MachinePoolInvalid(one.field, str(one)) for one in problems if one not in known)
        )
    found, users = NOTHING, list(users_of(managed, kind, new))
    for cluster, pools in users:
        case = Case(
            before=cluster,
            after=cluster,
            managed=managed,
            managed_after=with_config(managed, kind, new),
            changed=pools,
            replaced={key_of(cluster): pools} if old is not None else {},
            title=f" of {cluster.metadata.name}",
        )
        found += judged(case, harvesters)
    if not users:
        names = set(asked.devices) - set(before.devices if before is not None else ())
        return _unknown_devices(sorted(names), harvesters)
    if before is not None and not known and _asks_for_no_more(before, asked):
        return replace(found, refusals=())
    return found


def users_of(
    managed: Managed, kind: str, config: MachineConfig
) -> Iterator[tuple[GuestCluster, frozenset[str]]]:
    """The clusters with a configuration, and the names of its pools there."""
    meta = config.metadata
    for cluster in managed.clusters:
        if cluster.metadata.namespace != meta.namespace or cluster.metadata.deletion_timestamp:
            continue
        refs = {pool.name: pool.machine_config_ref for pool in pools_of(cluster)}
        pools = (name for name, ref in refs.items() if (ref.kind, ref.name) == (kind, meta.name))
        if names := frozenset(pools):
            yield cluster, names


def _asks_for_no_more(old: Asked, new: Asked) -> bool:
    """Whether a machine fits wherever the one before did."""
    fewer = all(count <= old.devices.get(name, 0) for name, count in new.devices.items())
    smaller = new.size.cpus <= old.size.cpus and new.size.memory <= old.size.memory
    pinned = old.size.pinned or not new.size.pinned
    anywhere = new.terms is None or new.terms == old.terms
    return fewer and smaller and pinned and anywhere and new.namespace == old.namespace


def _unknown_devices(names: list[str], harvesters: Harvesters) -> Outcome:
    """Devices that no node has, of a configuration that no cluster has yet.

    It names no cloud credential, so nothing is said of what the Harvester clusters have.
    """
    there = harvesters.all()
    supplies = [one.supply for one in there if one.supply is not None]
    homes = {name for supply in supplies for name in supply.ledger.homes}
    missing = [name for name in names if name not in homes]
    if not missing:
        return NOTHING
    if len(supplies) < len(there) or not there:
        which = "not every" if supplies else "no"
        words = f"Laneway did not check {listed(missing)}: {which} Harvester cluster is known."
        return Outcome(unchecked=(words,))
    return Outcome(tuple(NoNodeHasResource(name, ()) for name in missing))
