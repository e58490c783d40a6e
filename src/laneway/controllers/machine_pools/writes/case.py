"""A guest cluster before and after a write, judged on each Harvester cluster of its pools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from laneway.controllers.machine_pools.judged import NONE_REPLACED, Replaced, judged_one
from laneway.controllers.machine_pools.look import Managed, Supply
from laneway.core.machine_pools.judge import About
from laneway.core.phrases import listed
from laneway.core.refusals import MachinePoolShort, MachinesHaveNoRoom, Refusal, RoomUncertain
from laneway.kube.rancher import CONFIGS, GuestCluster, MachinePool


class Harvester(NamedTuple):
    """One Harvester cluster."""

    name: str
    supply: Supply | None
    """What it has; None: not known."""
    why: str = ""
    """Why that is not known, as the end of a sentence."""
    told: bool = True
    """Whether the requester may be told what it has."""

    @property
    def unknown(self) -> str:
        """The same as a sentence."""
        if not self.told:
            return "the Harvester cluster of the cloud credential is not known."
        return f"the Harvester cluster {self.name} is not known: {self.why}."


class Harvesters(Protocol):
    """The Harvester clusters on which machines are."""

    def of(self, credential: str) -> Harvester:
        """That of a cloud credential, `cattle-global-data:cc-abcde`; it may be empty."""

    def all(self) -> Sequence[Harvester]: ...


class Outcome(msgspec.Struct, frozen=True):
    """What there is to say of a write."""

    refusals: tuple[Refusal, ...] = ()
    """What speaks against it."""
    warnings: tuple[Refusal, ...] = ()
    unchecked: tuple[str, ...] = ()
    """What was not judged, and why: a sentence each."""

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            (*self.refusals, *other.refusals),
            (*self.warnings, *other.warnings),
            (*self.unchecked, *other.unchecked),
        )


NOTHING = Outcome()


class Case(NamedTuple):
    """A guest cluster whose pools are to have other machines, or more."""

    before: GuestCluster | None
    after: GuestCluster
    managed: Managed
    """Everything as it is."""
    managed_after: Managed
    changed: frozenset[str]
    """The names of these pools."""
    replaced: Replaced = NONE_REPLACED
    title: str = ""
    """` of guest` where the write is not that of the cluster itself."""


def pools_of(cluster: GuestCluster | None) -> Sequence[MachinePool]:
    """Those on Harvester."""
    pools = cluster.pools if cluster is not None else ()
    return [pool for pool in pools if pool.machine_config_ref.kind in CONFIGS]


def judged(case: Case, harvesters: Harvesters) -> Outcome:
    """What there is to say of the changed pools."""
    there: dict[str, Harvester] = {}
    names: dict[str, set[str]] = {}
    for pool in pools_of(case.after):
        if pool.name in case.changed:
            harvester = harvesters.of(credential_of(case.after, pool))
            before = there.get(harvester.name, harvester)
            there[harvester.name] = harvester._replace(told=harvester.told and before.told)
            names.setdefault(harvester.name, set()).add(pool.name)
    found = NOTHING
    for name, harvester in sorted(there.items()):
        found += _on_one(case, harvester, names[name], harvesters)
    return found


def _on_one(case: Case, harvester: Harvester, names: set[str], harvesters: Harvesters) -> Outcome:
    if harvester.supply is None:
        pools = f"pool{'s' if len(names) > 1 else ''} {listed(sorted(names))}"
        return Outcome(
            unchecked=(f"Laneway did not check {pools}{case.title}: {harvester.unknown}",)
        )

    def part(managed: Managed) -> Managed:
        clusters = (_on(one, harvester.name, harvesters) for one in managed.clusters)
        return replace(managed, clusters=tuple(clusters))

    after = judged_one(
        part(case.managed_after),
        harvester.supply,
        _on(case.after, harvester.name, harvesters),
        case.replaced,
    ).judgement
    if not (after.refusals or after.warnings):
        return NOTHING
    known: set[tuple[str, str]] = set()
    if case.before is not None:
        there = _on(case.before, harvester.name, harvesters)
        before = judged_one(part(case.managed), harvester.supply, there).judgement
        known = {(one.pool, one.refusal.reason) for one in (*before.refusals, *before.warnings)}

    def new(said: Sequence[About]) -> Iterator[Refusal]:
        for pool, refusal in said:
            if pool in names or (pool, refusal.reason) not in known:
                yield MachinePoolShort(f"{pool}{case.title}", refusal)

    found = Outcome(tuple(new(after.refusals)), tuple(new(after.warnings)))
    return found if harvester.told else _without_details(found)


def _without_details(found: Outcome) -> Outcome:
    """What may be said of pools to a requester who may not know what the Harvester cluster has."""

    def pools(said: Sequence[Refusal]) -> Iterator[str]:
        yield from dict.fromkeys(one.pool for one in said if isinstance(one, MachinePoolShort))

    return Outcome(
        tuple(MachinePoolShort(one, MachinesHaveNoRoom()) for one in pools(found.refusals)),
        tuple(MachinePoolShort(one, RoomUncertain()) for one in pools(found.warnings)),
    )


def _on(cluster: GuestCluster, harvester: str, harvesters: Harvesters) -> GuestCluster:
    """A guest cluster with the pools that are on one Harvester cluster."""
    rke = cluster.spec.rke_config
    if rke is None:
        return cluster
    pools = [
        pool
        for pool in rke.machine_pools
        if harvesters.of(credential_of(cluster, pool)).name == harvester
    ]
    if len(pools) == len(rke.machine_pools):
        return cluster
    spec = replace(cluster.spec, rke_config=replace(rke, machine_pools=pools))
    return replace(cluster, spec=spec)


def credential_of(cluster: GuestCluster, pool: MachinePool) -> str:
    """The cloud credential by which machines of a pool are made; may be empty."""
    return pool.cloud_credential_secret_name or cluster.spec.cloud_credential_secret_name
