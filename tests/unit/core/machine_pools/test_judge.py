"""Whether the machines of all pools can start, and what a rolling update lacks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Demand, Facts
from laneway.core.ledger.ledger import Ledger
from laneway.core.machine_pools import judge as judge_module
from laneway.core.machine_pools.judge import Judgement, judge, places
from laneway.core.machine_pools.pool import Machine, Pool
from laneway.core.refusals import (
    InsufficientCompute,
    InsufficientDevices,
    MachinesCompete,
    PlacementUncertain,
    SurgeBlocked,
)

GIB = 2**30


def pool(write: Any, quantity: int, name: str = "gpu", **more: Any) -> Pool:
    return Pool(**{"name": name, "quantity": quantity, "devices": {write.small: 1}, **more})


def made(devices: list[Any], *demands: Demand, nodes: Any = None) -> Ledger:
    return build(Facts(tuple(devices), demands, nodes))


def machines(write: Any, *names: str, stays: bool = True) -> tuple[Machine, ...]:
    return tuple(Machine(write.vm(name), stays) for name in names)


def held(write: Any, free: int, *names: str) -> Ledger:
    """A node on which these VMs have a device each, and some are free."""
    return made(
        write.devices("n1", len(names) + free), *(write.running(name, "n1") for name in names)
    )


def surge(found: Judgement) -> SurgeBlocked:
    [about] = found.warnings
    assert isinstance(about.refusal, SurgeBlocked)
    return about.refusal


def test_a_pool_that_fits_with_the_surge_of_an_update(write: Any) -> None:
    found = judge([pool(write, 3)], held(write, 4), None)
    assert found == Judgement({"gpu": 3})


def test_the_fourth_machine_is_refused_with_who_holds_the_devices(write: Any) -> None:
    found = judge([pool(write, 4)], held(write, 3, "other"), None)
    [about] = found.refusals
    assert isinstance(about.refusal, InsufficientDevices)
    assert (about.pool, about.refusal.vms, about.refusal.possible) == ("gpu", 4, 3)
    assert "1 held by VM default/other" in about.refusal.words


def test_what_a_cluster_has_already_is_not_needed_again(write: Any) -> None:
    """R2: an edit counted the cluster's own vGPUs as needed again."""
    ledger = held(write, 0, "m-1", "m-2", "m-3")
    own = machines(write, "m-1", "m-2", "m-3")
    assert not judge([pool(write, 3, machines=own)], ledger, None).refusals
    [about] = judge([pool(write, 4, machines=own)], ledger, None).refusals
    assert isinstance(about.refusal, InsufficientDevices)
    assert (about.refusal.vms, about.refusal.possible) == (1, 0)


def test_nothing_free_is_judged_as_well(write: Any) -> None:
    """R3: availability of 0, below 0 or unknown switched validation off."""
    assert judge([pool(write, 1)], held(write, 0, "other"), None).refusals
    assert judge([pool(write, 1)], made([]), None).refusals


def test_devices_are_counted_by_node_and_only_on_open_ones(write: Any) -> None:
    """R5: a sum over nodes said yes to a third machine, of 1 + 1 devices of two nodes."""
    devices = [*write.devices("n1", 3), *write.devices("n2", 3), *write.devices("n3", 8)]
    nodes = write.nodes("n1", "n2", n3="the node is cordoned")
    ledger = made(devices, nodes=nodes)
    two = {write.small: 2}
    assert not judge([pool(write, 2, devices=two)], ledger, None).refusals
    [about] = judge([pool(write, 3, devices=two)], ledger, None).refusals
    assert "8 unavailable: the node is cordoned" in about.refusal.words


def test_pools_are_judged_together(write: Any) -> None:
    ledger = held(write, 3)
    both = [pool(write, 2, "a"), pool(write, 2, "b")]
    [about] = judge(both, ledger, None).refusals
    assert about.refusal == MachinesCompete((("a", 2), ("b", 2)))
    assert not judge([both[0], pool(write, 1, "b")], ledger, None).refusals


def test_a_type_counts_as_often_as_it_is_requested(write: Any) -> None:
    """R7: a type counted once for each pool."""
    assert judge([pool(write, 1, devices={write.small: 4})], held(write, 3), None).refusals


def test_cpu_and_memory_are_needed_on_the_node_of_the_devices(write: Any) -> None:
    ledger = made(write.devices("n1", 2), nodes=write.nodes("n1", "n2"))
    compute = {
        "n1": {"cpu": 6_000, "memory": 8 * GIB},
        "n2": {"cpu": 64_000, "memory": 512 * GIB},
    }
    small = pool(write, 2, cpu=2_000, memory=4 * GIB)
    assert not judge([small], ledger, compute).refusals
    large = msgspec.structs.replace(small, memory=6 * GIB)
    [about] = judge([large], ledger, compute).refusals
    assert isinstance(about.refusal, InsufficientCompute)
    assert about.refusal.words.startswith(
        "There is room for 1 of 2 machines, whose pods each request 2 CPUs and 6 GiB: node n1 has "
        "6 CPUs and 8 GiB free."
    )


def test_an_update_needs_room_for_one_more(write: Any) -> None:
    own = machines(write, "m-1", "m-2", stays=False)
    full = held(write, 0, "m-1", "m-2")
    found = judge([pool(write, 2, machines=own)], full, None)
    assert not found.refusals
    assert surge(found).words.startswith(
        "The rolling update of its machines waits for room for a new machine before it "
        f"deletes an old one: the nodes lack 1 x {write.small}."
    )
    assert not judge([pool(write, 2, machines=own)], held(write, 1, "m-1", "m-2"), None).warnings
    patient = pool(write, 2, machines=own, surge=0, unavailable=1)
    assert judge([patient], full, None) == Judgement({"gpu": 2})


def test_the_missing_number_is_exact(write: Any) -> None:
    new = pool(write, 2, devices={write.small: 2}, surge=2)
    [about] = judge([new], made(write.devices("n1", 5)), None).warnings
    assert about.refusal == SurgeBlocked(
        missing=1, devices=((write.small, 1),), replaced=0, due=False
    )


def test_an_update_may_stop_on_its_way(write: Any) -> None:
    """Two of the larger machines fit only where both smaller ones were."""
    devices = [*write.devices("n1", 2), *write.devices("n2", 2)]
    running = [write.running(name, node) for name, node in (("m-1", "n1"), ("m-2", "n2"))]
    ledger = made(devices, *running)
    own = machines(write, "m-1", "m-2", stays=False)
    larger = pool(write, 2, devices={write.small: 2}, machines=own, surge=0, unavailable=1)
    assert judge([larger], ledger, None) == Judgement({"gpu": 2})
    beside = made([*devices[:2], *write.devices("n2", 1)], *running)
    assert judge([larger], beside, None).refusals
    patient = pool(write, 2, devices={write.small: 2}, machines=own)
    assert surge(judge([patient], ledger, None)).missing == 1


def test_what_a_smaller_pool_gives_back_is_there_for_another(write: Any) -> None:
    devices = [*write.devices("n1", 1), *write.devices("n2", 1)]
    ledger = made(devices, write.running("m-1", "n1"), write.running("m-2", "n2"))
    younger, older = machines(write, "m-2", "m-1")
    own = (younger._replace(created="2026-02"), older._replace(created="2026-01"))
    fewer = pool(write, 1, "a", machines=own)
    assert [one.vm.name for one in fewer.leaving] == ["m-1"]  # Rancher's policy is `Oldest`
    here, there = (pool(write, 1, "b", nodes=frozenset({node})) for node in ("n1", "n2"))
    assert not judge([fewer, here], ledger, None).refusals
    assert judge([fewer, there], ledger, None).refusals


def test_what_depends_on_the_scheduler_is_said(write: Any) -> None:
    devices = [*write.devices("n1", 1), *write.devices("n2", 1)]
    ledger = made([*devices, *write.devices("n1", 1, write.large)])
    pools = [
        pool(write, 1, "a", unavailable=1),
        pool(write, 1, "b", devices={write.small: 1, write.large: 1}, unavailable=1),
    ]
    found = judge(pools, ledger, None)
    assert not found.refusals
    [about] = found.warnings
    assert isinstance(about.refusal, PlacementUncertain)


def test_a_machine_without_devices_may_be_anywhere(write: Any) -> None:
    ledger = made(write.devices("n1", 1), nodes=write.nodes("n1", "n2"))
    compute = {"n1": {"cpu": 1_000}, "n2": {"cpu": 4_000}}
    assert not judge([pool(write, 4, devices={}, cpu=1_000)], ledger, compute).refusals
    assert judge([pool(write, 6, devices={}, cpu=1_000)], ledger, compute).refusals


def test_machines_that_another_cluster_waits_for_count_first(write: Any) -> None:
    """R9: between two clusters that are created at once nothing is reserved."""
    ledger = held(write, 3)
    first = [pool(write, 2, "other/gpu")]
    assert judge([pool(write, 1)], ledger, None, first).refusals == ()
    [about] = judge([pool(write, 2)], ledger, None, first).refusals
    assert about.refusal == MachinesCompete((("gpu", 2), ("other/gpu", 2)))
    greedy = [pool(write, 9, "other/gpu")]
    assert judge([pool(write, 1)], ledger, None, greedy).refusals
    assert not judge([pool(write, 1, devices={write.large: 0})], ledger, None, greedy).refusals


@pytest.mark.parametrize(
    ("sizes", "stops"),
    [
        ((40, 0, 1), [0]),
        ((40, 1, 1), []),
        ((40, 40, 2), [39]),
        ((20, 0, 2), [39]),
        ((20, 1, 2), []),
    ],
)
def test_a_long_rolling_update_is_searched_for_where_it_stops(
    write: Any, monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int, int], stops: list[int]
) -> None:
    """Looking at each of its stages finds the same."""
    quantity, free, count = sizes
    names = [f"m-{number}" for number in range(40)]
    ledger = held(write, free, *names)
    old = machines(write, *names, stays=False)
    one = pool(write, quantity, machines=old, devices={write.small: count})
    searched = judge([one], ledger, None)
    found = [one.refusal for one in searched.warnings]
    assert [one.replaced for one in found if isinstance(one, SurgeBlocked)] == stops
    monkeypatch.setattr(judge_module, "_STAGES", 1_000)
    assert judge([one], ledger, None) == searched


def test_each_node_has_room_for_so_many_machines_once_those_that_leave_are_gone(
    write: Any,
) -> None:
    devices = [*write.devices("n1", 2), *write.devices("n2", 1), *write.devices("n3", 1)]
    nodes = write.nodes("n1", "n2", "n4", n3="the node is cordoned")
    ledger = made(devices, write.running("old", "n1"), nodes=nodes)
    compute = {name: {"cpu": 1_000, "memory": 8 * GIB} for name in ("n1", "n2", "n3", "n4")}
    old = machines(write, "old", stays=False)
    one = pool(write, 1, cpu=1_000, memory=GIB, machines=old, nodes=frozenset({"n1", "n3"}))
    found = {place.node: place for place in places([one], one, ledger, compute)}
    rooms = {name: place.room for name, place in found.items()}
    assert rooms == {"n1": 1, "n2": 0, "n3": 0, "n4": 0}, "of n1, one processor is free"
    assert found["n1"].free[write.small] == 2
    assert (found["n3"].closed, found["n3"].free) == ("the node is cordoned", {})
    assert not found["n2"].allowed
    plain = pool(write, 1, devices={})
    assert places([plain], plain, ledger, None)[0].room is None, "nothing is known that limits it"
