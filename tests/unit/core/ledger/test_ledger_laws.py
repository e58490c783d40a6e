"""What holds for the ledger whatever the facts are."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.ledger.answer import can_start
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
from laneway.core.ledger.ledger import Share, State
from laneway.core.ledger.question import Request

NODES = ["n1", "n2", "n3"]
RESOURCES = ["r/a", "r/b"]
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
CONSUMER = st.builds(Consumer, st.sampled_from(ConsumerKind), st.just("d"), st.sampled_from("abc"))
"""Few, so that many of those who have devices request some, too."""
NAMES = st.sampled_from([f"dev-{number}" for number in range(5)])
DEVICES = st.builds(
    DeviceFact,
    st.sampled_from(NODES),
    st.sampled_from(RESOURCES),
    NAMES,
    st.sampled_from(["", "", "", "ill"]),
    st.none() | st.none() | CONSUMER,
)
COUNTS = st.integers(0, 4) | st.sampled_from([-1, -(10**20), 10**20])
DEMANDS = st.builds(
    Demand,
    CONSUMER,
    st.sampled_from(Phase),
    st.dictionaries(st.sampled_from([*RESOURCES, "r/unknown"]), COUNTS, max_size=3),
    st.sampled_from(["", "", *NODES, "gone"]),
    LABELS,
    st.lists(NAMES, max_size=3).map(tuple),
    st.sampled_from(["", "2026", "2025"]),
)
OPEN = st.sampled_from(["", "", "closed"])
SEEN = st.none() | st.lists(
    st.builds(NodeFact, st.sampled_from(NODES), LABELS, OPEN),
    unique_by=lambda node: node.name,
    max_size=3,
).map(tuple)
FACTS = st.builds(
    Facts,
    st.lists(DEVICES, max_size=16).map(tuple),
    st.lists(DEMANDS, max_size=5).map(tuple),
    SEEN,
)


@given(FACTS)
def test_sums_equal_devices(facts: Facts) -> None:
    ledger = build(facts)
    there = {(fact.node, fact.resource, fact.name) for fact in facts.devices}
    assert sum(stock.counts.total for stock in ledger.stocks.values()) == len(there)
    for (node, resource), stock in ledger.stocks.items():
        counts = stock.counts
        reported = Counter(entry.state for entry in stock.entries())
        assert {entry.device.name for entry in stock.entries()} == {
            name for on, of, name in there if (on, of) == (node, resource)
        }
        for state in State:
            assert getattr(counts, state) == reported[state] >= 0
        assert counts.total == sum(getattr(counts, state) for state in State)
        assert ledger.free[resource].get(node, 0) == counts.free


@given(FACTS, st.randoms(use_true_random=False))
def test_the_order_of_facts_says_nothing(facts: Facts, luck: object) -> None:
    devices, demands = list(facts.devices), list(facts.demands)
    luck.shuffle(devices)  # type: ignore[attr-defined]
    luck.shuffle(demands)  # type: ignore[attr-defined]
    # Two demands of one name have no difference that Kubernetes guarantees.
    kept = {demand.consumer: demand for demand in demands}
    shuffled = Facts(tuple(devices), tuple(kept.values()), facts.nodes)
    ordered = Facts(facts.devices, tuple(kept[consumer] for consumer in sorted(kept)), facts.nodes)
    assert build(shuffled) == build(ordered)


@given(FACTS)
def test_every_vm_gets_what_it_requests_and_no_more_or_is_short(facts: Facts) -> None:
    """Where it is, or on open nodes; elsewhere it keeps what was reported, and it is of no use."""
    ledger = build(facts)
    for consumer, demand in ledger.demands.items():

        def serves(one: Share | DeviceFact, demand: Demand = demand) -> bool:
            there = ledger.nodes[one.node]
            return one.node == demand.node if demand.node else not there.closed

        reported = [fact for fact in facts.devices if fact.owner == consumer]
        enough = Counter(fact.resource for fact in reported if serves(fact))
        shares = Counter(
            share.resource for share in ledger.shares.get(consumer, ()) if serves(share)
        )
        missing = Counter(
            {
                k: v
                for short in ledger.shortages
                if short.consumer == consumer
                for k, v in short.missing.items()
            }
        )
        for resource, count in demand.requests.items():
            assert shares[resource] + missing[resource] <= max(count, enough[resource], 0)
            if demand.phase is not Phase.RUNNING:
                assert shares[resource] + missing[resource] >= count
        assert all(count > 0 for count in missing.values())
        told_names = {(fact.node, fact.resource, fact.name) for fact in reported}
        for share in ledger.shares.get(consumer, ()):
            assert serves(share) or (share.node, share.resource, share.name) in told_names


@given(FACTS)
def test_who_is_placed_by_the_ledger_is_on_one_node_that_he_may_use(facts: Facts) -> None:
    ledger = build(facts)
    owners = {fact.owner for fact in facts.devices}
    for consumer, demand in ledger.demands.items():
        if demand.node or consumer in owners:
            continue
        nodes = {share.node for share in ledger.shares.get(consumer, ())}
        assert len(nodes) <= 1
        for node in nodes:
            labels = ledger.nodes[node].labels
            assert not ledger.nodes[node].closed
            assert demand.selector.items() <= labels.items()


REQUESTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(1, 3), min_size=1, max_size=3)


@given(FACTS, REQUESTS, st.integers(1, 5))
def test_the_answer_is_what_would_come_of_it(
    facts: Facts, resources: dict[str, int], vms: int
) -> None:
    """So many can start as get devices when they are added after all others."""
    answer = can_start(build(facts), Request(resources=resources, vms=vms))
    added = tuple(
        Demand(Consumer(ConsumerKind.VM, "new", str(number)), Phase.STOPPED, resources, created="9")
        for number in range(vms)
    )
    after = build(msgspec.structs.replace(facts, demands=facts.demands + added))
    short = {shortage.consumer for shortage in after.shortages}
    assert sum(one.consumer not in short for one in added) == answer.started
    assert answer.yes == (answer.started == vms)


RUNNING = st.lists(DEVICES, max_size=16).map(
    lambda devices: Facts(
        tuple(devices),
        tuple(
            Demand(consumer, Phase.RUNNING, {"r/else": 1})
            for consumer in sorted({fact.owner for fact in devices if fact.owner is not None})
        ),
    )
)


@given(RUNNING, REQUESTS, st.integers(1, 5))
def test_who_is_replaced_counts_as_if_he_were_gone(
    facts: Facts, resources: dict[str, int], vms: int
) -> None:
    ledger = build(facts)
    everybody = tuple(ledger.demands)
    request = Request(resources=resources, vms=vms, replacing=everybody)
    merged = [entry.device for stock in ledger.stocks.values() for entry in stock.entries()]
    nobody = Facts(tuple(msgspec.structs.replace(fact, owner=None) for fact in merged))
    alone = can_start(build(nobody), Request(resources=resources, vms=vms))
    assert can_start(ledger, request).started == alone.started


@given(RUNNING, REQUESTS, st.integers(1, 5), st.integers(1, 3), st.integers(0, 3))
def test_what_can_be_done_step_by_step_can_be_done_at_once(
    facts: Facts, resources: dict[str, int], vms: int, surge: int, unavailable: int
) -> None:
    ledger = build(facts)
    at_once = Request(resources=resources, vms=vms, replacing=tuple(ledger.demands))
    stepwise = msgspec.structs.replace(at_once, surge=surge, unavailable=unavailable)
    answer, best = can_start(ledger, stepwise), can_start(ledger, at_once)
    assert answer.started <= best.started
    more = can_start(ledger, msgspec.structs.replace(stepwise, surge=surge + 1))
    assert answer.started <= more.started


@given(FACTS, REQUESTS, st.integers(-3, 10**12), LABELS, st.lists(CONSUMER, max_size=4).map(tuple))
def test_every_question_has_an_answer_in_one_line_each(
    facts: Facts,
    resources: dict[str, int],
    vms: int,
    selector: dict[str, str],
    replacing: tuple[Consumer, ...],
) -> None:
    ledger = build(facts)
    request = Request(
        resources={**resources, "r/unknown": vms},
        vms=vms,
        selector=selector,
        replacing=replacing,
        surge=1,
    )
    answer = can_start(ledger, request)
    assert answer.yes or answer.kept + answer.started < answer.vms
    assert all(refusal.words.isprintable() for refusal in answer.refusals)
