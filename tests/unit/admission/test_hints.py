"""The nodes that pods with vGPUs are to prefer, and what becomes of VMs then."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from laneway.admission.node_costs import MOST_NEW, NodeCosts
from laneway.api import ObjectMeta
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, NodeFact, Phase
from laneway.core.ledger.upkeep import Changes
from laneway.core.packing.churn import Mix, by_policy, churn
from laneway.core.packing.policy import aware
from laneway.core.packing.room import Room
from laneway.kube.kubevirt import KubeVirt, VirtualMachineInstance
from support.packed_nodes import BOARD, RESOURCES, PackedCluster, launcher, with_vgpu

SIZES = {kind.slots: at for at, kind in enumerate(BOARD.kinds)}
QUARTER = SIZES[12]
CONTROLLER = "system:serviceaccount:kubevirt:kubevirt-controller"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Spot = tuple[int, int, int]
"""Of a vGPU: its GPU, counted over all nodes, its first slot, and its slots."""


def filled(cluster: PackedCluster, *, held: Iterable[Spot], free: Iterable[Spot]) -> PackedCluster:
    """The cluster with these vGPUs."""
    rooms = [Room()] * (cluster.each * len(cluster.nodes))
    for spots, used in ((held, True), (free, False)):
        for gpu, start, slots in spots:
            number, at = divmod(gpu, cluster.each)
            cluster.nodes[number].vgpus[at][start] = SIZES[slots]
            if used:
                rooms[gpu] = with_vgpu(rooms[gpu], SIZES[slots], start)
    cluster.tell(rooms)
    return cluster


def halves() -> PackedCluster:
    """A 12Q is free on both nodes: on n0 in the only place of a 24Q, on n1 next to another 12Q."""
    cluster = PackedCluster(2, 1)
    return filled(cluster, held=[(0, 0, 24), (1, 0, 12)], free=[(0, 24, 12), (1, 12, 12)])


def weights(pod: dict[str, Any]) -> dict[str, int]:
    """What a pod prefers, by node, if terms are by name."""
    affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return {
        rule["values"][0]: term["weight"]
        for term in affinity.get(PREFERRED, [])
        for rule in term["preference"].get("matchFields", [])
    }


def test_a_pod_prefers_the_node_where_the_least_room_is_lost() -> None:
    stored = halves().admitted(launcher(QUARTER))

    assert weights(stored) == {"n1": 100, "n0": 50}
    rule = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    assert stored["spec"]["affinity"]["nodeAffinity"] == {
        PREFERRED: [
            {"weight": 100, "preference": {"matchFields": [rule]}},
            {"weight": 50, "preference": {"matchFields": [{**rule, "values": ["n0"]}]}},
        ]
    }


def test_what_the_pod_says_itself_stays_and_weighs_more() -> None:
    zone = {"key": "zone", "operator": "In", "values": ["a"]}
    own = {"weight": 30, "preference": {"matchExpressions": [zone]}}
    apart = {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]}
    affinity = {"nodeAffinity": {PREFERRED: [own]}, "podAntiAffinity": apart}

    stored = halves().admitted(launcher(QUARTER, affinity=affinity))["spec"]["affinity"]

    assert stored["podAntiAffinity"] == apart
    assert stored["nodeAffinity"][PREFERRED][0] == own
    assert [one["weight"] for one in stored["nodeAffinity"][PREFERRED][1:]] == [29, 14]


def three() -> PackedCluster:
    """As above; n2, the worst, has a free 12Q on an empty GPU."""
    cluster = PackedCluster(3, 1)
    names = ("n0", "n1", "n2")
    facts = {one: NodeFact(one, {"name": one}) for one in names}
    cluster.upkeep.apply(Changes(nodes={**facts}))
    free = [(0, 24, 12), (1, 12, 12), (2, 0, 12)]
    return filled(cluster, held=[(0, 0, 24), (1, 0, 12)], free=free)


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"name": "n1"}},
        {"nodeName": "n0"},
        {
            "affinity": {
                "nodeAffinity": {
                    REQUIRED: {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {"key": "name", "operator": "In", "values": ["n1"]}
                                ]
                            }
                        ]
                    }
                }
            }
        },
    ],
)
def test_where_a_pod_has_no_choice_it_stays_as_it_is(spec: dict[str, Any]) -> None:
    pod = launcher(QUARTER, **spec)
    assert three().admitted(pod)["spec"] == pod["spec"]


def test_nodes_where_the_pod_cannot_be_are_not_preferred() -> None:
    rule = {"key": "name", "operator": "NotIn", "values": ["n1"]}
    terms = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}

    stored = three().admitted(launcher(QUARTER, affinity={"nodeAffinity": terms}))

    assert weights(stored) == {"n0": 100, "n2": 50}
    assert stored["spec"]["affinity"]["nodeAffinity"][REQUIRED] == terms[REQUIRED]


@pytest.mark.parametrize("without", [{"ledger": lambda: None}, {"node_costs": None}])
def test_where_nothing_is_known_or_hints_are_off_a_pod_stays_as_it_is(
    without: dict[str, Any],
) -> None:
    cluster = halves()
    cluster.world = replace(cluster.world, **without)

    assert cluster.admitted(launcher(QUARTER))["spec"] == launcher(QUARTER)["spec"]


@pytest.mark.parametrize(
    ("size", "held"), [(SIZES[24], []), (QUARTER, [(0, 0, 12), (1, 0, 12)])], ids=["none", "equal"]
)
def test_without_a_difference_between_nodes_a_pod_stays_as_it_is(
    size: int, held: list[Spot]
) -> None:
    cluster = filled(PackedCluster(2, 1), held=held, free=[(0, 12, 12), (1, 12, 12)])
    assert cluster.admitted(launcher(size))["spec"] == launcher(size)["spec"]


def test_a_few_nodes_are_preferred_and_no_more() -> None:
    nodes = range(14)
    free = [(node, 0, 12) for node in nodes]
    cluster = filled(PackedCluster(14, 1), held=[(node, 12, 12) for node in nodes[1:]], free=free)

    found = weights(cluster.admitted(launcher(QUARTER)))

    assert len(found) == 10
    assert "n0" not in found


def test_in_a_large_cluster_the_nodes_that_few_have_free_are_known_first() -> None:
    """And all of them after some pods: no pod waits until everything is worked out."""
    count = MOST_NEW + 30
    held = [(node, 12, 12) for node in range(count) if node != 7]
    free = [(node, 0, 12) for node in range(count)] + [(7, 24, 12)]
    cluster = filled(PackedCluster(count, 1), held=[*held, (9, 36, 12)], free=free)
    world, asked = cluster.world, {RESOURCES[QUARTER]: 1}
    assert world.node_costs is not None

    first = world.node_costs(world, cluster.upkeep.ledger, asked, None)
    assert len(first) == MOST_NEW
    assert "n7" not in first
    assert len(world.node_costs(world, cluster.upkeep.ledger, asked, None)) == count


def test_what_changes_on_a_node_counts_for_the_next_pod() -> None:
    cluster = halves()
    cluster.admitted(launcher(QUARTER))

    filled(cluster, held=[(0, 0, 24), (0, 36, 12), (1, 0, 12)], free=[(0, 24, 12), (1, 12, 12)])

    assert weights(cluster.admitted(launcher(QUARTER))) == {"n0": 100, "n1": 50}


def test_a_vgpu_of_another_profile_counts_for_the_next_pod_while_a_vm_has_it() -> None:
    cluster = halves()
    world, asked = cluster.world, {RESOURCES[QUARTER]: 1}
    held, free = [(0, 0, 24), (1, 0, 12)], [(0, 24, 12), (1, 12, 12)]

    def costs() -> dict[str, Any]:
        assert world.node_costs is not None
        return dict(world.node_costs(world, cluster.upkeep.ledger, asked, None))

    before = costs()
    filled(cluster, held=held, free=[*free, (0, 40, 8)])
    assert costs() == before  # It can be removed.
    filled(cluster, held=[*held, (0, 40, 8)], free=free)
    assert costs()["n0"] < before["n0"]  # Its place for a 24Q is broken anyway.
    assert costs()["n1"] == before["n1"]


def test_several_vgpus_are_best_where_they_break_one_large_place_together() -> None:
    cluster = PackedCluster(2, 2)
    held = [(gpu, 0, 24) for gpu in range(4)]
    free = [(0, 24, 12), (0, 36, 12), (2, 24, 12), (3, 24, 12)]
    filled(cluster, held=held, free=free)
    pair = launcher(QUARTER)
    pair["spec"]["containers"][0]["resources"]["limits"][RESOURCES[QUARTER]] = "2"

    assert weights(cluster.admitted(pair)) == {"n0": 100, "n1": 50}
    assert weights(cluster.admitted(launcher(QUARTER))) == {}


def test_a_vgpu_that_is_kept_for_the_vm_is_free_for_its_pod_alone() -> None:
    cluster = halves()
    vm = Consumer(ConsumerKind.VM, "team", "vm")
    kept = next(name for node, name in _free_devices(cluster) if node == "n1")
    demand = Demand(vm, Phase.PENDING, {RESOURCES[QUARTER]: 1}, last=(kept,))
    cluster.upkeep.apply(Changes(demands={vm: demand}))
    cluster.world.installations.put(
        KubeVirt(metadata=ObjectMeta(name="kubevirt", namespace="kubevirt"))
    )
    cluster.world.instances.put(
        VirtualMachineInstance(metadata=ObjectMeta(name="vm", namespace="team", uid="i"))
    )
    kind = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance"}
    owner = {**kind, "name": "vm", "uid": "i", "controller": True}
    pod = launcher(QUARTER)
    of_vm = {**pod, "metadata": {**pod["metadata"], "ownerReferences": [owner]}}

    assert weights(cluster.admitted(pod)) == {}
    assert weights(cluster.admitted(of_vm, CONTROLLER)) == {"n1": 100, "n0": 50}


def _free_devices(cluster: PackedCluster) -> list[tuple[str, str]]:
    return [
        (stock.node, entry.device.name)
        for stock in cluster.upkeep.ledger.stocks.values()
        if stock.resource == RESOURCES[QUARTER]
        for entry in stock.entries()
        if entry.consumer is None
    ]


def test_a_vgpu_that_is_gone_is_not_counted_any_more() -> None:
    cluster = halves()
    cluster.admitted(launcher(QUARTER))
    cluster.nodes[1].vgpus[0].clear()
    cluster.tell([Room()] * 2)

    assert cluster.world.node_costs is not None
    found = NodeCosts().of(cluster.world, cluster.upkeep.ledger, {RESOURCES[QUARTER]: 1})
    assert found == cluster.world.node_costs(
        cluster.world, cluster.upkeep.ledger, {RESOURCES[QUARTER]: 1}, None
    )
    assert [*found] == ["n0"]


@pytest.mark.slow
def test_a_cluster_serves_as_much_as_the_policy_within_a_hundredth() -> None:
    """Webhook, scheduler and device plugins against the planner's own simulation."""
    mix = Mix(tuple(float(kind.slots in (4, 8, 12, 24)) for kind in BOARD.kinds), gpus=4)
    policy = by_policy(BOARD, aware, lowest=True)
    planned, served = (
        [
            churn(BOARD, mix, take, seed=seed, arrivals=2500).memory
            for seed, take in enumerate(takers)
        ]
        for takers in ([policy] * 6, [PackedCluster(mix.gpus, 1).take for _ in range(6)])
    )
    assert sum(served) == pytest.approx(sum(planned), rel=0.01)
    # Without the hint it is 0.018 less than planned.
