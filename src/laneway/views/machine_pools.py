"""Machine pools of guest clusters in words, and as data for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from laneway.controllers.machine_pools.judged import ClusterState, PoolState
from laneway.core.ledger.facts import Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools.device_info import HOST_DEVICES, VGPUS
from laneway.core.machine_pools.judge import About
from laneway.core.machine_pools.pool import Pool
from laneway.core.phrases import listed
from laneway.core.refusals.machine_pools import SurgeBlocked
from laneway.views.order import natural

GiB = 2**30
_DEVICES = frozenset({VGPUS.field, HOST_DEVICES.field})


class Said(NamedTuple):
    """Something that speaks against a pool, or about which it warns."""

    weight: Literal["unknown", "invalid", "refusal", "warning"]
    reason: str
    text: str


class Available(NamedTuple):
    """The devices of a resource that a pool can have."""

    resource: str
    nodes: tuple[tuple[str, int], ...]
    """How many on which node: free, or in machines of the same cluster."""
    free: int
    held: int
    """How many its cluster has already."""

    @property
    def total(self) -> int:
        return self.free + self.held


class MachineState(NamedTuple):
    """One machine of a pool that exists."""

    name: str
    node: str
    state: str
    devices: tuple[str, ...]
    """Names of the devices that it has, or that are kept for it."""
    leaves: int
    """Its place in the order of those that are replaced or removed; 0: it stays."""


def devices(requests: Mapping[str, int]) -> str:
    """`1 x nvidia.com/NVIDIA_A2-4Q`; `none`."""
    return listed(
        f"{count} x {name}" for name, count in sorted(requests.items(), key=lambda i: natural(i[0]))
    )


NOT_KNOWN = "not known"


def devices_of(state: PoolState) -> str:
    """The devices of a pool's machines in words, where they can be read."""
    return NOT_KNOWN if _has_wrong(state, *_DEVICES) else devices(state.pool.devices)


def size_of(state: PoolState) -> tuple[str, str]:
    """The CPUs and the memory of a machine in words."""
    size = state.asked.size
    return (
        NOT_KNOWN if _has_wrong(state, "cpuCount") else str(size.cpus),
        NOT_KNOWN if _has_wrong(state, "memorySize") else f"{size.memory // GiB} GiB",
    )


def _has_wrong(state: PoolState, *fields: str) -> bool:
    """Whether one of these fields, or the whole configuration, cannot be read."""
    return state.config is None or any(one.field in fields for one in state.problems)


def waits(state: PoolState, cluster: ClusterState) -> bool:
    """Whether a rolling update of a pool has begun and cannot go on."""
    return any(
        isinstance(about.refusal, SurgeBlocked) and about.refusal.due
        for about in _about(cluster.judgement.warnings, state.pool)
    )


def fit(state: PoolState, cluster: ClusterState) -> str:
    """Whether the machines of a pool fit: a word."""
    if state.problems:
        return "unknown" if state.unread else "invalid"
    if any(about.pool == state.pool.name for about in cluster.judgement.refusals):
        return "no"
    return "not all pools" if cluster.judgement.refusals and state.pool.coming else "yes"


def said(state: PoolState, cluster: ClusterState) -> Iterator[Said]:
    """What there is to say of a pool."""
    for problem in state.problems:
        yield Said("unknown" if state.unread else "invalid", "", str(problem))
    for about in _about(cluster.judgement.refusals, state.pool):
        yield Said("refusal", about.refusal.reason, about.refusal.words)
    for about in _about(cluster.judgement.warnings, state.pool):
        yield Said("warning", about.refusal.reason, about.refusal.words)


def words(state: PoolState, cluster: ClusterState) -> Iterator[str]:
    """The same, a line each."""
    return map(_line, said(state, cluster))


def against(state: PoolState, cluster: ClusterState) -> Iterator[str]:
    """The lines without those that only warn."""
    return (_line(one) for one in said(state, cluster) if one.weight != "warning")


def _line(one: Said) -> str:
    start = one.reason if one.weight == "refusal" else one.weight.capitalize()
    return f"{start}: {one.text}"


def _about(said: tuple[About, ...], pool: Pool) -> Iterator[About]:
    return (about for about in said if about.pool == pool.name)


def machines(pool: Pool, ledger: Ledger) -> list[MachineState]:
    """The machines of a pool that exist, those that go first at the top."""
    order = {machine.vm: number for number, machine in enumerate(pool.leaving, 1)}
    found = []
    for machine in pool.machines:
        demand = ledger.demands[machine.vm]
        shares = ledger.shares.get(machine.vm, ())
        found.append(
            MachineState(
                machine.vm.name,
                demand.node or next((share.node for share in shares), ""),
                "not started" if not machine.placed else str(demand.phase),
                tuple(sorted(share.name for share in shares)),
                order.get(machine.vm, 0),
            )
        )
    return sorted(found, key=lambda one: (one.leaves or len(order) + 1, natural(one.name)))


def available(state: PoolState, cluster: ClusterState, ledger: Ledger) -> list[Available]:
    """What a pool can have of each resource, where there is something; its own always.

    What the machines of its cluster have counts, because they are replaced by machines with it.
    Nodes on which no machine of the pool can start do not count.
    """
    pool, found = state.pool, []
    open_nodes = {
        name
        for name, node in ledger.nodes.items()
        if not node.closed and (pool.nodes is None or name in pool.nodes)
    }
    held: dict[str, Counter[str]] = {}
    for vm in {one.vm for other in cluster.pools for one in other.pool.machines}:
        for share in ledger.shares.get(vm, ()):
            if share.usable and share.node in open_nodes:
                held.setdefault(share.resource, Counter())[share.node] += 1
    for resource in {*ledger.homes, *pool.devices}:
        own = held.get(resource, Counter())
        free = {
            node: count
            for node, count in ledger.free.get(resource, {}).items()
            if node in open_nodes
        }
        nodes = Counter(free) + own
        if nodes or resource in pool.devices:
            by_name = sorted(nodes.items(), key=lambda one: natural(one[0]))
            total = sum(free.values())
            found.append(Available(resource, tuple(by_name), total, own.total()))
    return sorted(found, key=lambda one: natural(one.resource))


def running(pool: Pool, ledger: Ledger) -> int:
    """How many machines of a pool run."""
    return sum(ledger.demands[one.vm].phase is Phase.RUNNING for one in pool.machines)


def to_create(pool: Pool) -> int:
    """How many machines are still to be created."""
    return max(pool.quantity - sum(one.stays for one in pool.machines), 0)


def plain(cluster: ClusterState, ledger: Ledger) -> dict[str, Any]:
    """A guest cluster for programs; None: not known."""
    return {
        "namespace": cluster.cluster.metadata.namespace,
        "cluster": cluster.cluster.metadata.name,
        "fits": cluster.fits,
        "pools": [_plain(one, cluster, ledger) for one in cluster.pools],
    }


def _plain(state: PoolState, cluster: ClusterState, ledger: Ledger) -> dict[str, Any]:
    pool = state.pool
    return {
        "pool": pool.name,
        "machineConfig": state.spec.machine_config_ref.name,
        "quantity": pool.quantity,
        "devices": None if _has_wrong(state, *_DEVICES) else dict(pool.devices),
        "cpus": None if _has_wrong(state, "cpuCount") else state.asked.size.cpus,
        "memoryGiB": None if _has_wrong(state, "memorySize") else state.asked.size.memory // GiB,
        "maxSurge": pool.surge,
        "maxUnavailable": pool.unavailable,
        "toCreate": to_create(pool),
        "room": cluster.judgement.room.get(pool.name, 0),
        "fits": fit(state, cluster) == "yes",
        "problems": [{"field": one.field, "message": str(one)} for one in state.problems],
        "refusals": _reasons(cluster.judgement.refusals, pool),
        "warnings": _reasons(cluster.judgement.warnings, pool),
        "machines": [
            {
                "name": one.name,
                "node": one.node,
                "state": one.state,
                "devices": list(one.devices),
                "leaves": one.leaves,
            }
            for one in machines(pool, ledger)
        ],
    }


def _reasons(said: tuple[About, ...], pool: Pool) -> list[dict[str, str]]:
    return [
        {"reason": about.refusal.reason, "message": about.refusal.words}
        for about in _about(said, pool)
    ]
