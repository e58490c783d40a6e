"""The judgement of pools against the simulated scheduler: it holds for whatever starts."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st

from kubebasics import quantity
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import (
    Consumer,
    ConsumerKind,
    Demand,
    DeviceFact,
    Facts,
    NodeFact,
    Phase,
)
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools.judge import Judgement, judge
from laneway.core.machine_pools.pool import Machine, Pool
from laneway.core.refusals import SurgeBlocked
from laneway.simcluster.clusterapi.rollout import SetSize, resized
from laneway.simcluster.objects import Node, PlacedPod
from laneway.simcluster.scheduler import choose

SMALL, LARGE = "nvidia.com/NVIDIA_A2-2Q", "nvidia.com/NVIDIA_A2-8Q"
CPU = 1000


class Vm(NamedTuple):
    """A VM on the simulated cluster."""

    pool: str
    node: str
    needs: Mapping[str, int]
    old: bool


class World:
    """Nodes with devices and processors, and VMs that the scheduler has put on them."""

    def __init__(self, has: Mapping[str, Mapping[str, int]], luck: random.Random) -> None:
        self.has = has
        self.luck = luck
        self.vms: list[Vm] = []

    def start(self, pool: str, needs: Mapping[str, int], *, old: bool = False) -> bool:
        """Have the scheduler place one VM; whether it has found a node."""
        nodes = [node(name, there) for name, there in self.has.items()]
        self.luck.shuffle(nodes)
        taken: dict[str, dict[str, int]] = {}
        for vm in self.vms:
            on = taken.setdefault(vm.node, {"pods": self.luck.randrange(9) * quantity.NANO})
            for name, count in vm.needs.items():
                on[name] = on.get(name, 0) + in_nanos(name, count)
        chosen, _ = choose(pod(needs, self.luck.choice(sorted(self.has))), nodes, taken)
        if chosen:
            self.vms.append(Vm(pool, chosen, needs, old))
        return bool(chosen)


def node(name: str, has: Mapping[str, int]) -> Node:
    allocatable = {key: texts(key, count) for key, count in has.items()}
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {**allocatable, "pods": "110"}, "conditions": [ready]}
    return msgspec.convert({"metadata": {"name": name}, "status": status}, Node)


def pod(needs: Mapping[str, int], liked: str) -> PlacedPod:
    """A pod that prefers a node, by which any node that fits may be chosen."""
    limits = {name: texts(name, count) for name, count in needs.items() if count}
    container: dict[str, Any] = {"name": "compute", "resources": {"limits": limits}}
    rule = {"key": "metadata.name", "operator": "In", "values": [liked]}
    term = {"weight": 100, "preference": {"matchFields": [rule]}}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {"containers": [container], "affinity": {"nodeAffinity": preferred}}
    return msgspec.convert({"spec": spec}, PlacedPod)


def texts(name: str, count: int) -> str:
    return f"{count}m" if name == "cpu" else str(count)


def in_nanos(name: str, count: int) -> int:
    return quantity.value(texts(name, count))


def consumer(number: int) -> Consumer:
    return Consumer(ConsumerKind.VM, "default", f"m{number}")


def ledger(world: World) -> Ledger:
    """What Laneway would know."""
    devices, demands = [], []
    left = {
        (name, resource): [f"{name}-{resource}-{n}" for n in range(count)]
        for name, has in world.has.items()
        for resource, count in has.items()
        if resource != "cpu"
    }
    for number, vm in enumerate(world.vms):
        requests = {name: count for name, count in vm.needs.items() if name != "cpu" and count}
        demands.append(Demand(consumer(number), Phase.RUNNING, requests, node=vm.node))
        for resource, count in requests.items():
            for _ in range(count):
                name = left[vm.node, resource].pop()
                devices.append(DeviceFact(vm.node, resource, name, owner=consumer(number)))
    devices += [DeviceFact(*key, name) for key, names in left.items() for name in names]
    nodes = tuple(NodeFact(name) for name in world.has)
    return build(Facts(tuple(devices), tuple(demands), nodes))


def compute(world: World) -> dict[str, dict[str, int]]:
    free = {name: {"cpu": has.get("cpu", 0), "memory": 0} for name, has in world.has.items()}
    for vm in world.vms:
        free[vm.node]["cpu"] -= vm.needs.get("cpu", 0)
    return free


def pools_of(world: World, wanted: list[Pool]) -> list[Pool]:
    return [
        msgspec.structs.replace(
            pool,
            machines=tuple(
                Machine(consumer(number), not vm.old, needs={"cpu": vm.needs.get("cpu", 0)})
                for number, vm in enumerate(world.vms)
                if vm.pool == pool.name
            ),
        )
        for pool in wanted
    ]


def settled(world: World, wanted: list[Pool]) -> bool:
    """Roll out as Cluster API does, step by step; whether all pools get what they want."""
    needs = {pool.name: {**pool.devices, "cpu": pool.cpu} for pool in wanted}
    waiting = dict.fromkeys(needs, 0)
    """Machines that the scheduler has not placed yet."""
    changed = True
    while changed:
        changed = False
        for pool in world.luck.sample(wanted, len(wanted)):
            own = [vm for vm in world.vms if vm.pool == pool.name]
            new, old = [v for v in own if not v.old], [v for v in own if v.old]
            size = SetSize("new", len(new) + waiting[pool.name], len(new))
            sizes = [SetSize("old", len(old), len(old))] if old else []
            changes = resized(
                pool.quantity, size, sizes, surge=pool.surge, unavailable=pool.unavailable
            )
            for vm in old[: len(old) - changes.get("old", len(old))]:
                world.vms.remove(vm)
            waiting[pool.name] += changes.get("new", size.replicas) - size.replicas
            changed |= bool(changes)
            if waiting[pool.name] and world.start(pool.name, needs[pool.name]):
                waiting[pool.name] -= 1
                changed = True
    return not any(waiting.values()) and all(
        [vm.old for vm in world.vms if vm.pool == pool.name] == [False] * pool.quantity
        for pool in wanted
    )


def is_blocked(verdict: Judgement) -> bool:
    return any(
        isinstance(one.refusal, SurgeBlocked) and one.refusal.due for one in verdict.warnings
    )


worlds = st.dictionaries(
    st.sampled_from(["n1", "n2", "n3"]),
    st.fixed_dictionaries(
        {
            SMALL: st.integers(0, 4),
            LARGE: st.integers(0, 2),
            "cpu": st.integers(0, 6).map(CPU.__mul__),
        }
    ),
    min_size=1,
)
devices = st.dictionaries(st.sampled_from([SMALL, LARGE]), st.integers(1, 2), max_size=2)
some_pools = st.lists(
    st.builds(
        Pool,
        name=st.sampled_from(["a", "b"]),
        quantity=st.integers(0, 4),
        devices=devices,
        cpu=st.integers(0, 2).map(CPU.__mul__),
        surge=st.integers(0, 2),
        unavailable=st.integers(0, 1),
    ),
    min_size=1,
    max_size=2,
    unique_by=lambda pool: pool.name,
)
before = st.lists(
    st.tuples(st.sampled_from(["a", "b", "other"]), devices, st.integers(0, 1).map(CPU.__mul__)),
    max_size=4,
)


@given(worlds, some_pools, before, st.randoms(use_true_random=False))
def test_what_is_judged_to_fit_starts_and_nothing_else(
    has: Any, wanted: list[Pool], earlier: Any, luck: random.Random
) -> None:
    world = World(has, luck)
    for name, needs, cpu in earlier:
        world.start(name, {**needs, "cpu": cpu}, old=name != "other")
    wanted = [pool for pool in wanted if pool.surge or pool.unavailable]
    assume(wanted)
    judged = [
        pool for pool in wanted if pool.quantity or any(vm.pool == pool.name for vm in world.vms)
    ]
    verdict = judge(pools_of(world, judged), ledger(world), compute(world))
    started = settled(world, judged)
    if verdict.refusals:
        assert not started
    elif not verdict.warnings:
        assert started
    elif len(judged) == 1 and is_blocked(verdict):
        assert not started
