"""What the ledger answers, and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.core.ledger.answer import can_start
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Demand, DeviceFact, Facts, NodeFact, Phase
from laneway.core.ledger.ledger import Ledger
from laneway.core.ledger.question import Answer, Request, selected
from laneway.core.refusals import (
    InsufficientDevices,
    NodeNotFound,
    NoNodeFits,
    NoNodeHasResource,
    NoNodeMatches,
    RolloutBlocked,
)


def made(devices: list[Any], *demands: Demand, nodes: Any = None) -> Ledger:
    return build(Facts(tuple(devices), demands, nodes))


def asked(ledger: Ledger, resources: dict[str, int], vms: int = 1, **more: Any) -> Answer:
    return can_start(ledger, Request(resources=resources, vms=vms, **more))


def test_yes_names_the_nodes_with_room(write: Any) -> None:
    devices = [*write.devices("n1", 5), *write.devices("n2", 1), *write.devices("n3", 2)]
    answer = asked(made(devices), {write.small: 2}, 3)
    assert answer.yes
    assert (answer.started, answer.room) == (3, (("n1", 2), ("n3", 1)))


def test_a_refusal_names_numbers_and_holders(write: Any) -> None:
    devices = write.devices("n1", 5, owners=[write.vm("a"), write.vm("a"), write.pod("p")])
    ledger = made(devices, write.running("a", "n1", 2), write.stopped("b"))
    answer = asked(ledger, {write.small: 2})
    assert not answer.yes
    assert answer.started == 0
    [refusal] = answer.refusals
    assert refusal.words == (
        "nvidia.com/NVIDIA_A2-2Q: 2 requested on one node; node n1 has 1 free of 5 (3 held by "
        "VM default/a (2), pod default/p (1); 1 reserved by the stopped VM default/b); no other "
        "node has any. Free some, request fewer, or configure more. To see which GPUs have room: "
        "laneway gpus"
    )


def test_a_refusal_says_why_a_device_cannot_be_had(write: Any) -> None:
    devices = [*write.devices("n1", 1, unhealthy="it fell off the bus"), *write.devices("n2", 1)]
    ledger = made(devices, write.pending("c"), nodes=write.nodes("n1", n2="the node is cordoned"))
    [refusal] = asked(ledger, {write.small: 1}).refusals
    assert "node n1 has 0 free of 1 (1 unavailable: it fell off the bus)" in refusal.words
    assert "node n2 has 0 free of 1 (1 unavailable: the node is cordoned)" in refusal.words


def test_those_that_wait_for_a_device_are_named(write: Any) -> None:
    [refusal] = asked(made(write.devices("n1", 1), write.pending("c")), {write.small: 1}).refusals
    assert "(1 requested by VM default/c)" in refusal.words


def test_a_pool_is_warned_for_how_many_there_is_enough(write: Any) -> None:
    devices = [*write.devices("n1", 3), *write.devices("n2", 3)]
    answer = asked(made(devices), {write.small: 2}, 3)
    assert answer.started == 2
    [refusal] = answer.refusals
    assert isinstance(refusal, InsufficientDevices)
    assert (refusal.vms, refusal.possible) == (3, 2)
    assert "2 requested by each of 3 VMs, and there is enough for 2" in refusal.words


def test_of_many_nodes_those_with_the_most_are_reported_and_the_others_counted(write: Any) -> None:
    devices = [one for n in range(9) for one in write.devices(f"n{n}", n)]
    [refusal] = asked(made(devices), {write.small: 9}).refusals
    assert isinstance(refusal, InsufficientDevices)
    assert [node.node for node in refusal.nodes] == ["n8", "n7", "n6"]
    assert "5 other nodes have 15 free" in refusal.words


def test_each_resource_that_is_short_is_reported(write: Any) -> None:
    ledger = made([*write.devices("n1", 1), *write.devices("n1", 1, write.large)])
    answer = asked(ledger, {write.small: 2, write.large: 3})
    assert [one.resource for one in answer.refusals] == [write.small, write.large]  # type: ignore[attr-defined]


def test_enough_of_each_but_not_together_is_reported_as_that(write: Any) -> None:
    devices = [*write.devices("n1", 2), *write.devices("n2", 2, write.large)]
    [refusal] = asked(made(devices), {write.small: 2, write.large: 1}).refusals
    assert isinstance(refusal, NoNodeFits)
    assert "node n1 has 0 free of the 1 x nvidia.com/NVIDIA_A2-8Q" in refusal.words
    assert "node n2 has 0 free of the 2 x nvidia.com/NVIDIA_A2-2Q" in refusal.words


def test_an_unknown_resource_is_reported_with_the_known_ones(write: Any) -> None:
    answer = asked(made(write.devices("n1", 1)), {"example.com/NO": 1})
    [refusal] = answer.refusals
    assert isinstance(refusal, NoNodeHasResource)
    assert write.small in refusal.words


def test_of_many_names_the_one_that_may_be_meant_comes_first() -> None:
    devices = [DeviceFact("n1", f"nvidia.com/NVIDIA_A2-{n}Q", str(n)) for n in range(1, 21)]
    answer = asked(made(devices), {"nvidia.com/NVIDIA_A2-19": 1})
    assert "The nodes have nvidia.com/NVIDIA_A2-19Q, nvidia.com/" in answer.refusals[0].words


def test_a_node_that_is_requested_is_kept_to(write: Any) -> None:
    ledger = made([*write.devices("n1", 1), *write.devices("n2", 5)])
    assert asked(ledger, {write.small: 1}, nodes=("n1",)).room == (("n1", 1),)
    [refusal] = asked(ledger, {write.small: 2}, nodes=("n1",)).refusals
    assert "no other usable node has any" in refusal.words
    assert "n2" not in refusal.words


def test_a_node_that_there_is_not_is_reported(write: Any) -> None:
    [refusal] = asked(made(write.devices("n1", 1)), {write.small: 1}, nodes=("n9",)).refusals
    assert isinstance(refusal, NodeNotFound)
    assert "no node n9" in refusal.words
    assert "n1" in refusal.words


def test_labels_that_no_node_has_are_reported(write: Any) -> None:
    nodes = (NodeFact("n1", {"gpu": "yes"}), NodeFact("n2", {"gpu": "no"}))
    ledger = made([*write.devices("n1", 1), *write.devices("n2", 1)], nodes=nodes)
    assert asked(ledger, {write.small: 1}, selector={"gpu": "yes"}).room == (("n1", 1),)
    [refusal] = asked(ledger, {write.small: 1}, selector={"gpu": "maybe"}).refusals
    assert isinstance(refusal, NoNodeMatches)
    [refusal] = asked(ledger, {write.small: 1}, selector={"gpu": "maybe"}, nodes=("n1",)).refusals
    assert "The devices are on node n1, which does not have gpu=maybe." in refusal.words
    assert "gpu=maybe" in refusal.words


@pytest.mark.parametrize("resources", [{}, {"nvidia.com/NVIDIA_A2-2Q": 0}, {"example.com/X": -3}])
def test_vms_that_request_nothing_can_always_start(write: Any, resources: dict[str, int]) -> None:
    assert asked(made([]), resources, 5).yes


# ---- changes ----


def test_of_an_edit_only_the_difference_counts(write: Any) -> None:
    devices = write.devices("n1", 3, owners=[write.vm("a"), write.vm("a")])
    ledger = made(devices, write.running("a", "n1", 2))
    me = (write.vm("a"),)
    assert not asked(ledger, {write.small: 3}).yes
    answer = asked(ledger, {write.small: 3}, replacing=me)
    assert answer.yes
    assert answer.change == ((write.small, 1),)
    [refusal] = asked(ledger, {write.small: 4}, replacing=me).refusals
    assert "node n1 has 3 free of 3" in refusal.words


def test_an_edit_to_another_resource_says_what_is_released(write: Any) -> None:
    devices = write.devices("n1", 2, owners=[write.vm("a"), write.vm("a")])
    devices += write.devices("n1", 1, write.large)
    ledger = made(devices, write.running("a", "n1", 2))
    answer = asked(ledger, {write.large: 1}, replacing=(write.vm("a"),))
    assert answer.yes
    assert answer.change == ((write.small, -2), (write.large, 1))


def test_what_a_stopped_vm_reserves_is_there_for_itself(write: Any) -> None:
    ledger = made(write.devices("n1", 2), write.stopped("a", {write.small: 2}))
    assert not asked(ledger, {write.small: 1}).yes
    assert asked(ledger, {write.small: 1}, replacing=(write.vm("a"),)).yes


def test_a_vm_that_stays_as_it_is_needs_nothing_even_if_its_device_is_ill(write: Any) -> None:
    devices = write.devices("n1", 1, owners=[write.vm("a")], unhealthy="Xid 79")
    ledger = made(devices, write.running("a", "n1"))
    answer = asked(ledger, {write.small: 1}, replacing=(write.vm("a"),))
    assert (answer.yes, answer.kept, answer.started) == (True, 1, 0)


def test_an_ill_device_that_is_released_is_not_free(write: Any) -> None:
    old = (write.vm("a"), write.vm("b"))
    devices = write.devices("n1", 2, owners=old, unhealthy="Xid 79")
    ledger = made(devices, write.running("a", "n1"), write.running("b", "n1"))
    [refusal] = asked(ledger, {write.small: 2}, replacing=old).refusals
    assert "node n1 has 0 free of 2 (2 unavailable: Xid 79)" in refusal.words


def test_a_vm_that_moves_to_another_node_is_no_one_that_stays(write: Any) -> None:
    devices = [*write.devices("n1", 1, owners=[write.vm("a")]), *write.devices("n2", 1)]
    ledger = made(devices, write.running("a", "n1"))
    answer = asked(ledger, {write.small: 1}, replacing=(write.vm("a"),), nodes=("n2",))
    assert (answer.yes, answer.kept, answer.room) == (True, 0, (("n2", 1),))


def test_a_stopped_vm_that_is_short_is_no_one_that_stays(write: Any) -> None:
    ledger = made(write.devices("n1", 0) + write.devices("n2", 1, write.large), write.stopped("a"))
    answer = asked(ledger, {write.small: 1}, replacing=(write.vm("a"),))
    assert (answer.yes, answer.kept) == (False, 0)


def pool(write: Any, count: int, free: int) -> tuple[Ledger, tuple[Any, ...]]:
    """So many VMs with a small device each on one node, and so many free ones."""
    owners = [write.vm(f"web-{number}") for number in range(count)]
    devices = write.devices("n1", count + free, owners=owners)
    demands = [write.running(owner.name, "n1") for owner in owners]
    return made(devices, *demands), tuple(owners)


def test_a_pool_that_grows_needs_only_the_new_ones(write: Any) -> None:
    ledger, old = pool(write, 3, 2)
    answer = asked(ledger, {write.small: 1}, 5, replacing=old)
    assert (answer.yes, answer.kept, answer.started) == (True, 3, 2)
    assert answer.change == ((write.small, 2),)
    answer = asked(ledger, {write.small: 1}, 6, replacing=old)
    assert (answer.yes, answer.started) == (False, 2)


def test_a_pool_that_shrinks_needs_nothing(write: Any) -> None:
    ledger, old = pool(write, 3, 0)
    answer = asked(ledger, {write.small: 1}, 1, replacing=old)
    assert (answer.yes, answer.kept) == (True, 1)
    assert answer.change == ((write.small, -2),)


def test_a_pool_is_replaced_at_once_with_what_it_has(write: Any) -> None:
    ledger, old = pool(write, 4, 0)
    assert asked(ledger, {write.small: 2}, 2, replacing=old).yes
    assert not asked(ledger, {write.small: 2}, 3, replacing=old).yes


def test_a_roll_out_needs_room_for_the_surge(write: Any) -> None:
    full, old = pool(write, 3, 1)
    answer = asked(full, {write.small: 2}, 3, replacing=old, surge=1)
    assert not answer.yes
    stuck, short = answer.refusals
    assert isinstance(stuck, RolloutBlocked)
    assert isinstance(short, InsufficientDevices)
    assert (stuck.replaced, stuck.running) == (0, 3)
    assert "stops after 0 of 3 VMs: 3 old ones keep their devices" in stuck.words
    assert "1 free of 4 (3 held by VM default/web-0 (1), VM default/web-1 (1)" in short.words


def test_a_roll_out_goes_on_with_what_old_vms_release(write: Any) -> None:
    """2 of 4 are free. Each step takes two and releases one, so the third is one too many."""
    ledger, old = pool(write, 2, 2)
    assert asked(ledger, {write.small: 2}, 2, replacing=old).yes
    answer = asked(ledger, {write.small: 2}, 2, replacing=old, surge=1)
    assert (answer.yes, answer.started) == (False, 1)
    stuck = answer.refusals[0]
    assert isinstance(stuck, RolloutBlocked)
    assert (stuck.replaced, stuck.running) == (1, 1)
    ledger, old = pool(write, 2, 3)
    assert asked(ledger, {write.small: 2}, 2, replacing=old, surge=1).yes


def test_a_roll_out_without_surge_lets_one_go_first(write: Any) -> None:
    ledger, old = pool(write, 3, 1)
    assert not asked(ledger, {write.small: 2}, 3, replacing=old, surge=1).yes
    answer = asked(ledger, {write.small: 2}, 2, replacing=old, unavailable=1)
    assert answer.yes


def test_a_roll_out_where_nothing_may_change_is_stuck(write: Any) -> None:
    ledger, old = pool(write, 1, 5)
    answer = asked(ledger, {write.small: 2}, 1, replacing=old, surge=0, unavailable=0)
    [stuck] = answer.refusals
    assert isinstance(stuck, RolloutBlocked)


def test_vms_that_do_not_run_go_first(write: Any) -> None:
    """What the stopped one keeps is enough for the new VM, what the other has is not."""
    devices = write.devices("n1", 4, owners=[write.vm("a")])
    running, stopped = write.running("a", "n1"), write.stopped("b", {write.small: 3})
    ledger = made(devices, running, stopped)
    old = (running.consumer, stopped.consumer)
    assert asked(ledger, {write.small: 2}, 1, replacing=old, surge=1).yes


def test_a_pool_is_found_by_its_label(write: Any) -> None:
    def labelled(name: str, namespace: str, **labels: str) -> Demand:
        return Demand(write.vm(name, namespace), Phase.STOPPED, {}, labels=labels)

    ledger = made(
        [],
        labelled("a", "default", pool="web"),
        labelled("b", "default", pool="db"),
        labelled("c", "other", pool="web"),
    )
    assert selected(ledger, "default", {"pool": "web"}) == (write.vm("a"),)


def test_who_starts_again_elsewhere_stays_whatever_a_dead_node_still_says(write: Any) -> None:
    devices = [*write.devices("n1", 1, owners=[write.vm("a")]), *write.devices("n2", 1)]
    nodes = write.nodes("n2", n1="the node is not ready")
    old = (write.vm("a"),)
    for demand in (write.pending("a"), write.running("a", "n2")):
        ledger = made(devices, demand, nodes=nodes)
        answer = asked(ledger, {write.small: 1}, replacing=old, nodes=("n2",))
        assert (answer.yes, answer.kept) == (True, 1)
