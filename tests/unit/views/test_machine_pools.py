"""Which devices a machine pool can have: what is free, and what its cluster has already."""

from __future__ import annotations

from laneway.controllers.machine_pools.judged import ClusterState, PoolState
from laneway.controllers.machine_pools.reading import Asked, read_config
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
from laneway.core.machine_pools.judge import About, Judgement
from laneway.core.machine_pools.pool import Machine, Pool
from laneway.core.refusals.machine_pools import SurgeBlocked
from laneway.kube.rancher import GuestCluster, MachineConfig, MachinePool
from laneway.views.machine_pools import Available, available, devices_of, plain, size_of, waits

VGPU, NIC, GONE = "nvidia.com/NVIDIA_A2-4Q", "intel.com/I350", "nvidia.com/NVIDIA_A2-2Q"
DATA = "devices", "cpus", "memoryGiB"
OWN, OTHER = (Consumer(ConsumerKind.VM, "default", name) for name in ("own", "other"))


def found(pool: Pool, *others: Pool) -> list[Available]:
    """On n1, two vGPUs are the cluster's own, another's and one free; n3 is cordoned."""
    devices = (
        DeviceFact("n1", VGPU, "n1-a", owner=OWN),
        DeviceFact("n1", VGPU, "n1-b", owner=OTHER),
        DeviceFact("n1", VGPU, "n1-c"),
        DeviceFact("n2", VGPU, "n2-a"),
        DeviceFact("n2", NIC, "n2-b"),
        DeviceFact("n3", VGPU, "n3-a"),
    )
    demands = tuple(
        Demand(vm, Phase.RUNNING, {VGPU: 1}, node="n1", created="2030") for vm in (OWN, OTHER)
    )
    nodes = (NodeFact("n1"), NodeFact("n2"), NodeFact("n3", closed="the node is cordoned"))
    states = [PoolState(spec=MachinePool(name=one.name), pool=one) for one in (pool, *others)]
    cluster = ClusterState(cluster=GuestCluster(), pools=tuple(states), judgement=Judgement({}))
    return available(states[0], cluster, build(Facts(devices, demands, nodes)))


def test_what_machines_of_the_cluster_have_counts_and_cordoned_nodes_do_not() -> None:
    nic, vgpu = found(
        Pool(name="a", quantity=1), Pool(name="b", quantity=1, machines=(Machine(OWN, True),))
    )
    assert vgpu == Available(VGPU, (("n1", 2), ("n2", 1)), free=2, held=1)
    assert (nic.resource, nic.total) == (NIC, 1)


def test_the_affinity_of_a_pool_leaves_nodes_out() -> None:
    own = (Machine(OWN, True),)
    nic, vgpu = found(Pool(name="a", quantity=1, nodes=frozenset({"n2"}), machines=own))
    assert vgpu == Available(VGPU, (("n2", 1),), free=1, held=0), "its own is on n1"
    assert nic.resource == NIC


def test_what_a_pool_has_is_there_though_no_node_has_any() -> None:
    """R4: the current value was missing from the list."""
    first = found(Pool(name="a", quantity=1, devices={GONE: 1}))
    assert Available(GONE, (), free=0, held=0) in first


def test_what_cannot_be_read_is_not_told_as_none() -> None:
    unknown = "not known"

    def told(config: MachineConfig | None) -> tuple[str, ...]:
        asked, problems = read_config(config) if config else (Asked(), ())
        spec, pool = MachinePool(name="a"), Pool(name="a", quantity=1)
        state = PoolState(spec=spec, pool=pool, asked=asked, problems=problems, config=config)
        cluster = ClusterState(cluster=GuestCluster(), pools=(state,), judgement=Judgement({}))
        [data] = plain(cluster, build(Facts((), (), ())))["pools"]
        words = (devices_of(state), *size_of(state))
        for word, value in zip(words, map(data.get, DATA), strict=True):
            assert (word == unknown) == (value is None)
        return words

    assert told(None) == (unknown, unknown, unknown)
    assert told(MachineConfig(vgpu_info="{", cpu_count="abc")) == (unknown, unknown, "4 GiB")
    assert told(MachineConfig(memory_size="many")) == ("none", "2", unknown)


def test_an_update_that_has_begun_and_cannot_go_on_waits() -> None:
    def waiting(*, due: bool) -> bool:
        warning = About("a", SurgeBlocked(1, (), 0, due=due))
        state = PoolState(spec=MachinePool(name="a"), pool=Pool(name="a", quantity=1))
        judgement = Judgement({}, (), (warning,))
        return waits(
            state, ClusterState(cluster=GuestCluster(), pools=(state,), judgement=judgement)
        )

    assert waiting(due=True)
    assert not waiting(due=False)
