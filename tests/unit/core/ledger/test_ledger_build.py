"""Who gets which device in the ledger, and who is short."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Demand, Facts
from laneway.core.ledger.ledger import Counts, Ledger, State


def made(devices: list[Any], *demands: Demand, nodes: Any = None) -> Ledger:
    return build(Facts(tuple(devices), demands, nodes))


def who_has(ledger: Ledger, state: State) -> dict[str, str]:
    return {
        entry.device.name: str(entry.consumer)
        for stock in ledger.stocks.values()
        for entry in stock.entries()
        if entry.state is state
    }


def lacking(ledger: Ledger) -> dict[str, dict[str, int]]:
    return {str(short.consumer): dict(short.missing) for short in ledger.shortages}


def test_each_device_is_counted_where_it_is(write: Any) -> None:
    devices = [
        *write.devices("n1", 4, owners=[write.vm("a"), write.vm("a")]),
        *write.devices("n2", 1, unhealthy="gone"),
    ]
    ledger = made(devices, write.running("a", "n1", 2), write.stopped("b"), write.pending("c"))
    assert ledger.stocks["n1", write.small].counts == Counts(4, held=2, reserved=1, wanted=1)
    assert ledger.stocks["n2", write.small].counts == Counts(1, unhealthy=1)
    assert ledger.shortages == ()


def test_a_reported_device_has_exactly_that_holder(write: Any) -> None:
    devices = write.devices("n1", 3)
    devices += write.devices("n1", 1, write.large, owners=[write.pod("p")])
    ledger = made(devices)
    assert who_has(ledger, State.HELD) == {"n1-large-0": "pod default/p"}


def test_a_device_that_is_held_and_unhealthy_is_held(write: Any) -> None:
    ledger = made(write.devices("n1", 1, owners=[write.vm("a")], unhealthy="broken"))
    [stock] = ledger.stocks.values()
    assert stock.counts == Counts(1, held=1)
    [entry] = stock.entries()
    assert (entry.state, entry.unhealthy) == (State.HELD, "broken")


def test_a_running_vm_holds_devices_before_they_are_reported(write: Any) -> None:
    ledger = made(write.devices("n1", 1), write.running("a", "n1"), write.stopped("b"))
    assert who_has(ledger, State.HELD) == {"n1-small-0": "VM default/a"}
    assert lacking(ledger) == {"VM default/b": {write.small: 1}}


def test_only_what_is_not_reported_yet_is_added(write: Any) -> None:
    devices = write.devices("n1", 4, owners=[write.vm("a")])
    ledger = made(devices, write.running("a", "n1", 2))
    assert ledger.stocks["n1", write.small].counts == Counts(4, held=2, free=2)


def test_of_two_that_race_for_the_last_device_the_younger_is_short(write: Any) -> None:
    young = write.pending("a", created="2026-02-01T00:00:00Z")
    old = write.pending("b", created="2026-01-01T00:00:00Z")
    ledger = made(write.devices("n1", 1), young, old)
    assert who_has(ledger, State.WANTED) == {"n1-small-0": "VM default/b"}
    assert lacking(ledger) == {"VM default/a": {write.small: 1}}


def test_who_is_to_run_comes_before_who_is_stopped(write: Any) -> None:
    old = write.stopped("a", created="2026-01-01T00:00:00Z")
    ledger = made(write.devices("n1", 1), old, write.pending("b", created="2026-02-01T00:00:00Z"))
    assert who_has(ledger, State.WANTED) == {"n1-small-0": "VM default/b"}
    assert lacking(ledger) == {"VM default/a": {write.small: 1}}


def test_who_is_on_a_node_comes_before_who_may_go_anywhere(write: Any) -> None:
    placed = write.pending("a", created="2026-02-01T00:00:00Z", node="n1")
    ledger = made(write.devices("n1", 1), write.pending("b"), placed)
    assert who_has(ledger, State.WANTED) == {"n1-small-0": "VM default/a"}


def test_a_stopped_vm_keeps_the_devices_that_it_had(write: Any) -> None:
    devices = [*write.devices("n1", 3), *write.devices("n2", 3)]
    ledger = made(devices, write.stopped("a", last=("n2-small-2",)))
    assert who_has(ledger, State.RESERVED) == {"n2-small-2": "VM default/a"}


def test_it_goes_elsewhere_when_not_everything_fits_there_any_more(write: Any) -> None:
    devices = [
        *write.devices("n1", 2, owners=[write.vm("x")]),
        *write.devices("n2", 2),
    ]
    ledger = made(devices, write.stopped("a", {write.small: 2}, last=("n1-small-1",)))
    assert set(who_has(ledger, State.RESERVED)) == {"n2-small-0", "n2-small-1"}


def test_all_that_a_vm_requests_is_on_one_node(write: Any) -> None:
    devices = [
        *write.devices("n1", 1),
        *write.devices("n2", 1, write.large),
        *write.devices("n3", 1),
        *write.devices("n3", 1, write.large),
    ]
    both = {write.small: 1, write.large: 1}
    ledger = made(devices, write.stopped("a", both), write.stopped("b", both))
    assert set(who_has(ledger, State.RESERVED)) == {"n3-small-0", "n3-large-0"}
    assert lacking(ledger) == {"VM default/b": both}


def test_reservations_leave_what_is_free_in_large_pieces(write: Any) -> None:
    devices = [*write.devices("n1", 4), *write.devices("n2", 1), *write.devices("n3", 2)]
    ledger = made(devices, write.stopped("a"), write.stopped("b", {write.small: 2}))
    assert ledger.free[write.small] == {"n1": 4}


@pytest.mark.parametrize("many", [1, 100])
def test_a_node_selector_is_kept(write: Any, many: int) -> None:
    names = [f"n{number}" for number in range(many + 1)]
    devices = [one for name in names for one in write.devices(name, 1)]
    last = {"kubernetes.io/hostname": names[-1]}
    first, second = write.stopped("a", selector=last), write.stopped("b", selector=last)
    ledger = made(devices, first, second, nodes=write.nodes(*names))
    assert who_has(ledger, State.RESERVED) == {f"{names[-1]}-small-0": "VM default/a"}
    assert lacking(ledger) == {"VM default/b": {write.small: 1}}


def test_a_selector_of_many_nodes_takes_only_these(write: Any) -> None:
    names = [f"n{number:03}" for number in range(100)]
    facts = [
        type(node)(node.name, {**node.labels, "gpu": "yes" if number >= 40 else "no"})
        for number, node in enumerate(write.nodes(*names))
    ]
    devices = [one for name in names for one in write.devices(name, 1)]
    demands = [write.stopped(f"vm{number}", selector={"gpu": "yes"}) for number in range(70)]
    ledger = made(devices, *demands, nodes=tuple(facts))
    assert set(who_has(ledger, State.RESERVED)) == {f"{name}-small-0" for name in names[40:]}
    assert len(ledger.shortages) == 10


def test_nothing_is_free_where_nothing_can_start(write: Any) -> None:
    devices = [*write.devices("n1", 2, owners=[write.vm("a")]), *write.devices("n2", 1)]
    nodes = write.nodes("n2", n1="the node is cordoned")
    ledger = made(devices, write.running("a", "n1"), write.stopped("b"), nodes=nodes)
    assert ledger.stocks["n1", write.small].counts == Counts(2, held=1, unhealthy=1)
    assert who_has(ledger, State.RESERVED) == {"n2-small-0": "VM default/b"}


def test_devices_of_a_node_that_the_cluster_does_not_have_are_not_free(write: Any) -> None:
    ledger = made(write.devices("n1", 1), nodes=write.nodes("n2"))
    assert ledger.stocks["n1", write.small].closed == "the cluster has no such node"
    assert ledger.free[write.small] == {}


def test_a_vm_of_which_a_pod_ends_keeps_one_device_and_not_two(write: Any) -> None:
    devices = write.devices("n1", 2, owners=[write.vm("a")])
    ledger = made(devices, write.stopped("a"))
    assert ledger.stocks["n1", write.small].counts == Counts(2, held=1, free=1)


def test_what_a_dead_node_still_says_a_vm_has_is_no_use_elsewhere(write: Any) -> None:
    dead = write.devices("n1", 1, owners=[write.vm("a")])
    young = write.pending("b", created="2026-02-01T00:00:00Z")
    nodes = write.nodes("n2", n1="the node is not ready")
    ledger = made(
        [*dead, *write.devices("n2", 1)], write.pending("a", created="2026"), young, nodes=nodes
    )
    assert who_has(ledger, State.HELD) == {"n1-small-0": "VM default/a"}, "nobody else may take it"
    assert who_has(ledger, State.WANTED) == {"n2-small-0": "VM default/a"}
    assert lacking(ledger) == {"VM default/b": {write.small: 1}}
    assert lacking(made(dead, write.pending("a"), nodes=nodes)) == {
        "VM default/a": {write.small: 1}
    }


def test_what_a_vm_has_on_another_node_is_no_use_where_it_is(write: Any) -> None:
    dead = write.devices("n1", 1, owners=[write.vm("a")])
    alive = write.devices("n2", 2)
    nodes = write.nodes("n2", n1="the node is not ready")
    for demand in (write.pending("a", node="n2"), write.running("a", "n2")):
        ledger = made([*dead, *alive], demand, nodes=nodes)
        assert ledger.stocks["n2", write.small].counts.free == 1
    staying = made([*dead, *alive], write.running("a", "n1"), nodes=nodes)
    assert staying.stocks["n2", write.small].counts.free == 2, "a node that is closed runs on"


def test_who_runs_without_a_device_of_ours_is_not_short(write: Any) -> None:
    ledger = made(write.devices("n1", 1), write.running("a", "n1", 3, "example.com/OTHER"))
    assert ledger.shortages == ()


def test_what_is_missing_on_the_own_node_is_short(write: Any) -> None:
    ledger = made(write.devices("n1", 1), write.pending("a", {write.small: 3}, node="n1"))
    assert ledger.stocks["n1", write.small].counts == Counts(1, wanted=1)
    assert lacking(ledger) == {"VM default/a": {write.small: 2}}


def test_two_facts_about_one_device_are_one_device(write: Any) -> None:
    one, other = write.devices("n1", 1, owners=[write.vm("a")]), write.devices("n1", 1)
    for devices in ([*one, *other], [*other, *one]):
        ledger = made(devices)
        assert who_has(ledger, State.HELD) == {"n1-small-0": "VM default/a"}
        assert ledger.stocks["n1", write.small].counts.total == 1


@pytest.mark.parametrize("count", [0, -1, -(10**30)])
def test_who_requests_nothing_gets_nothing(write: Any, count: int) -> None:
    ledger = made(write.devices("n1", 1), write.pending("a", {write.small: count}))
    assert ledger.free[write.small] == {"n1": 1}
    assert ledger.shortages == ()


def test_requests_for_more_than_there_will_ever_be_are_short(write: Any) -> None:
    ledger = made(write.devices("n1", 1), write.pending("a", {write.small: 10**30}))
    assert lacking(ledger) == {"VM default/a": {write.small: 10**30}}
