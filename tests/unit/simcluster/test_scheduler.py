"""Where a pod fits, and why it fits nowhere."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.simcluster.objects import NODES, PLACED_PODS, Node, PlacedPod, requested
from laneway.simcluster.scheduler import choose

VGPU = "nvidia.com/NVIDIA_A2-2Q"


def node(name: str, *, ready: str = "True", spec: Any = None, **allocatable: str) -> Node:
    there = {"cpu": "4", "memory": "8Gi", "pods": "10"} | {
        key.replace("__", "/"): value for key, value in allocatable.items()
    }
    body = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec or {},
        "status": {
            "allocatable": there,
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return NODES.decode(msgspec.json.encode(body))


def pod(
    limits: dict[str, str],
    *,
    selector: dict[str, str] | None = None,
    affinity: dict[str, Any] | None = None,
) -> PlacedPod:
    body = {
        "metadata": {"name": "p", "uid": "u"},
        "spec": {
            "containers": [{"name": "c", "resources": {"limits": limits}}],
            "nodeSelector": selector or {},
            "affinity": {"nodeAffinity": affinity or {}},
        },
    }
    return PLACED_PODS.decode(msgspec.json.encode(body))


def with_devices(name: str, count: int, **more: Any) -> Node:
    one = node(name, **more)
    status = msgspec.structs.replace(
        one.status, allocatable={**one.status.allocatable, VGPU: str(count)}
    )
    return msgspec.structs.replace(one, status=status)


def test_the_node_that_has_the_devices_is_chosen() -> None:
    nodes = [node("a"), with_devices("b", 2)]
    assert choose(pod({VGPU: "2"}), nodes, {}) == ("b", "")


def test_what_others_have_is_not_to_be_had() -> None:
    nodes = [with_devices("a", 2), with_devices("b", 2)]
    taken = {"a": requested(pod({VGPU: "1"})), "b": requested(pod({VGPU: "1"}))}
    assert choose(pod({VGPU: "2"}), nodes, taken) == (
        "",
        f"0/2 nodes are available: 2 Insufficient {VGPU}.",
    )
    assert choose(pod({VGPU: "1"}), nodes, taken)[0] == "a"


@pytest.mark.parametrize(
    ("first", "needs"),
    [
        ([("1", "")], 1),
        ([("3", ""), ("2", "")], 3),
        ([("1", "Always")], 2),
        ([("1", "Always"), ("2", "")], 3),
        ([("2", ""), ("1", "Always")], 2),
    ],
)
def test_init_containers_count_with_what_runs_alongside_them(
    first: list[tuple[str, str]], needs: int
) -> None:
    containers = [
        {"name": "i", "restartPolicy": policy, "resources": {"limits": {VGPU: count}}}
        for count, policy in first
    ]
    plain = msgspec.to_builtins(pod({VGPU: "1"}))
    spec = {**plain["spec"], "initContainers": containers}
    asking = PLACED_PODS.decode(msgspec.json.encode({**plain, "spec": spec}))
    assert choose(asking, [with_devices("a", needs)], {})[0] == "a"
    assert choose(asking, [with_devices("a", needs - 1)], {})[0] == ""


def test_the_emptier_of_two_nodes_is_chosen() -> None:
    nodes = [node("a"), node("b")]
    assert choose(pod({}), nodes, {"a": requested(pod({}))})[0] == "b"


def preferring(**weights: int) -> dict[str, Any]:
    """Node affinity that prefers nodes by name."""
    terms = [
        {
            "weight": weight,
            "preference": {
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]
            },
        }
        for name, weight in weights.items()
    ]
    return {"preferredDuringSchedulingIgnoredDuringExecution": terms}


def test_what_a_pod_prefers_counts_in_proportion_to_the_best_node() -> None:
    """It is scaled such that the best node has 100, twice what each way to spread has."""
    nodes = [node("a"), node("b"), node("c")]
    used = {"a": requested(pod({"cpu": "2", "memory": "4Gi"}))}
    for best, other in ((100, 50), (2, 1)):
        assert choose(pod({}, affinity=preferring(a=best, b=other)), nodes, used)[0] == "a"
        assert choose(pod({}, affinity=preferring(b=best, c=other)), nodes, used)[0] == "b"
    assert choose(pod({}, affinity=preferring(a=100, b=90)), nodes, used)[0] == "b"
    assert (
        choose(pod({VGPU: "1"}, affinity=preferring(a=100)), [*nodes, with_devices("d", 1)], {})[0]
        == "d"
    )


def test_a_pod_is_only_where_its_affinity_requires() -> None:
    rule = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["a"]}
    term = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": term}
    assert choose(pod({}, affinity=apart), [node("a"), node("b")], {})[0] == "b"
    assert choose(pod({}, affinity=apart), [node("a")], {})[1] == (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    )


def test_every_obstacle_is_counted_in_kubernetes_words() -> None:
    nodes = [
        with_devices("a", 0),
        with_devices("b", 9, ready="Unknown"),
        with_devices("c", 9, spec={"unschedulable": True}),
        with_devices("d", 9),
        with_devices("e", 1, memory="1Gi"),
    ]
    wanted = pod({VGPU: "2", "memory": "2Gi"}, selector={"kubernetes.io/hostname": "e"})
    assert choose(wanted, nodes, {})[1] == (
        "0/5 nodes are available: 1 Insufficient memory, "
        f"1 Insufficient {VGPU}, "
        "1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }, "
        "1 node(s) were unschedulable, "
        "2 node(s) didn't match Pod's node affinity/selector."
    )
    assert choose(wanted, [], {})[1] == "no nodes available to schedule pods"


def test_a_full_node_takes_no_pod() -> None:
    full = {"a": requested(pod({})) + requested(pod({}))}
    assert choose(pod({}), [node("a", pods="2")], full)[1] == (
        "0/1 nodes are available: 1 Too many pods."
    )


@given(st.lists(st.integers(0, 4), max_size=4), st.lists(st.integers(1, 3), max_size=12))
def test_no_node_ever_gives_more_than_it_has(devices: list[int], desired_states: list[int]) -> None:
    nodes = [with_devices(f"n{number}", count) for number, count in enumerate(devices)]
    taken: dict[str, Any] = {}
    left = {f"n{number}": count for number, count in enumerate(devices)}
    for desired in desired_states:
        wanted = pod({VGPU: str(desired)})
        chosen, why = choose(wanted, nodes, taken)
        assert bool(chosen) == any(count >= desired for count in left.values())
        assert bool(why) != bool(chosen)
        if chosen:
            left[chosen] -= desired
            taken[chosen] = taken.get(chosen, requested(pod({}))) + requested(wanted)
    assert min(left.values(), default=0) >= 0


def test_the_node_of_a_pod_that_is_to_be_kept_away_from_is_none() -> None:
    nodes = [node("a"), node("b")]
    assert choose(pod({}), nodes, {}, apart={"a"}) == ("b", "")
    assert choose(pod({}), nodes[:1], {}, apart={"a"}) == (
        "",
        "0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.",
    )
