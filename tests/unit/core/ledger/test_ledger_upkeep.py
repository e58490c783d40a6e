"""The ledger that is kept up equals the one that is made from all facts at once."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

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
from laneway.core.ledger.upkeep import Changes, Upkeep

NODES = ["n1", "n2", "n3"]
RESOURCES = ["r/a", "r/b", "r/c"]
LABELS = st.dictionaries(st.just("x"), st.sampled_from(["1", "2"]), max_size=1)
CONSUMERS = st.builds(
    Consumer, st.sampled_from(ConsumerKind), st.just("d"), st.sampled_from("abcd")
)
NAMES = st.sampled_from([f"dev-{number}" for number in range(6)])
DEVICE = st.builds(
    DeviceFact,
    st.sampled_from([*NODES, "unreported"]),
    st.sampled_from(RESOURCES),
    NAMES,
    st.sampled_from(["", "", "", "ill"]),
    st.none() | st.none() | CONSUMERS,
)
COUNTS = st.sampled_from([1, 1, 2, 3, 0, -1, 10**20])
DEMAND = st.builds(
    Demand,
    CONSUMERS,
    st.sampled_from(Phase),
    st.dictionaries(st.sampled_from([*RESOURCES, "r/unknown"]), COUNTS, max_size=2),
    st.sampled_from(["", "", *NODES, "gone"]),
    LABELS,
    st.lists(NAMES, max_size=2).map(tuple),
    st.sampled_from(["", "2026", "2025"]),
)
NODE = st.builds(NodeFact, st.sampled_from(NODES), LABELS, st.sampled_from(["", "", "closed"]))

CHANGE = st.one_of(
    st.tuples(st.just("devices"), st.integers(0, 15), st.none() | DEVICE | DEVICE | DEVICE),
    st.tuples(st.just("demands"), CONSUMERS, st.none()),
    DEMAND.map(lambda demand: ("demands", demand.consumer, demand)),
    DEMAND.map(lambda demand: ("demands", demand.consumer, demand)),
    st.tuples(st.just("nodes"), st.sampled_from(NODES), st.none()),
    NODE.map(lambda node: ("nodes", node.name, node)),
)


def judged(facts: dict[str, dict[Any, Any]]) -> Ledger:
    there = {kind: tuple(known.values()) for kind, known in facts.items()}
    return build(Facts(**there))


@given(
    st.lists(st.lists(CHANGE, min_size=10, max_size=30), min_size=1, max_size=1),
    st.lists(st.lists(CHANGE, min_size=1, max_size=3), max_size=12),
)
def test_after_any_changes_it_is_the_ledger_made_from_scratch(
    first: list[list[tuple[str, Any, Any]]], later: list[list[tuple[str, Any, Any]]]
) -> None:
    upkeep = Upkeep()
    facts: dict[str, dict[Any, Any]] = {"devices": {}, "demands": {}, "nodes": {}}
    for step in [*first, *later]:
        changes = Changes()
        for kind, key, value in step:
            getattr(changes, kind)[key] = value
            facts[kind].pop(key, None)
            if value is not None:
                facts[kind][key] = value
        ledger = upkeep.apply(changes)
        expected = judged(facts)
        for field in Ledger.__struct_fields__:
            assert getattr(ledger, field) == getattr(expected, field), field
        assert list(ledger.stocks) == list(expected.stocks)
        assert list(ledger.nodes) == list(expected.nodes)


@given(st.integers(0, 1 << 32))
def test_where_many_wait_for_few_devices_it_is_the_ledger_made_from_scratch(seed: int) -> None:
    """Each change of one device or node moves VMs, and these move others."""
    luck = Random(seed)
    nodes = [f"n{number}" for number in range(luck.randint(2, 10))]
    labels = {name: {"x": luck.choice("12")} for name in nodes}
    facts: dict[str, dict[Any, Any]] = {
        "devices": {number: _device(number, nodes, luck) for number in range(8 * len(nodes))},
        "demands": {one.consumer: one for one in (_demand(n, nodes, luck) for n in range(50))},
        "nodes": {name: NodeFact(name, labels[name]) for name in nodes},
    }
    upkeep = Upkeep()
    upkeep.apply(Changes(*(dict(known) for known in facts.values())))
    for _ in range(12):
        changes = Changes()
        number = luck.randrange(8 * len(nodes))
        if luck.random() < 0.4:
            name = luck.choice(nodes)
            node = NodeFact(name, {"x": luck.choice("12")}, luck.choice(["", "", "closed"]))
            changes.nodes[name] = facts["nodes"][name] = node
        elif luck.random() < 0.7:
            changes.devices[number] = facts["devices"][number] = _device(number, nodes, luck)
        else:
            demand = _demand(luck.randrange(50), nodes, luck)
            gone = luck.random() < 0.3
            changes.demands[demand.consumer] = None if gone else demand
            facts["demands"].pop(demand.consumer, None)
            if not gone:
                facts["demands"][demand.consumer] = demand
        assert upkeep.apply(changes) == judged(facts)


def _device(number: int, nodes: list[str], luck: Random) -> DeviceFact:
    resource = RESOURCES[number // len(nodes) % 2]
    unhealthy = "ill" if luck.random() < 0.15 else ""
    owner = _consumer(luck.randrange(50)) if luck.random() < 0.15 else None
    return DeviceFact(nodes[number % len(nodes)], resource, f"d{number}", unhealthy, owner)


def _demand(number: int, nodes: list[str], luck: Random) -> Demand:
    kinds = luck.sample(RESOURCES[:2], luck.choice([1, 1, 1, 2]))
    last = tuple(f"d{luck.randrange(8 * len(nodes))}" for _ in range(luck.choice([0, 0, 1, 2])))
    return Demand(
        _consumer(number),
        luck.choice(list(Phase)),
        {kind: luck.choice([1, 1, 2, 3]) for kind in kinds},
        luck.choice(nodes) if luck.random() < 0.2 else "",
        {"x": luck.choice("12")} if luck.random() < 0.2 else {},
        last,
        str(luck.randint(1, 30)),
    )


def _consumer(number: int) -> Consumer:
    return Consumer(ConsumerKind.VM, "d", f"v{number}")


def vm(name: str, *, created: str = "", phase: Phase = Phase.STOPPED) -> Demand:
    consumer = Consumer(ConsumerKind.VM, "d", name)
    return Demand(consumer, phase, {"r/a": 1}, created=created)


def start(*devices: DeviceFact, demands: tuple[Demand, ...] = ()) -> tuple[Upkeep, Ledger]:
    upkeep = Upkeep()
    ledger = upkeep.apply(
        Changes(
            dict(enumerate(devices)),
            {demand.consumer: demand for demand in demands},
            {device.node: NodeFact(device.node) for device in devices},
        )
    )
    return upkeep, ledger


def test_a_ledger_that_was_given_out_stays_as_it_was() -> None:
    device = DeviceFact("n1", "r/a", "dev-0")
    upkeep, before = start(device)
    after = upkeep.apply(Changes(demands={vm("a").consumer: vm("a")}))
    assert before.stocks["n1", "r/a"].counts.free == 1
    assert after.stocks["n1", "r/a"].counts.reserved == 1


def test_facts_that_are_the_same_give_the_same_ledger() -> None:
    device = DeviceFact("n1", "r/a", "dev-0")
    upkeep, before = start(device, demands=(vm("a"),))
    again = Changes({0: device}, {vm("a").consumer: vm("a")}, {"n1": NodeFact("n1")})
    assert upkeep.apply(again) is before


def test_what_does_not_depend_on_a_change_is_not_made_again() -> None:
    upkeep, before = start(
        DeviceFact("n1", "r/a", "dev-0"),
        DeviceFact("n2", "r/a", "dev-1"),
        DeviceFact("n1", "r/b", "dev-2"),
        demands=(vm("a"),),
    )
    after = upkeep.apply(Changes({2: DeviceFact("n1", "r/b", "dev-2", "ill")}))
    changed = {key for key in after.stocks if after.stocks[key] is not before.stocks[key]}
    assert changed == {("n1", "r/b")}


def test_what_is_reserved_stays_so_when_another_device_of_the_stock_changes() -> None:
    ill = DeviceFact("n1", "r/a", "dev-1", "ill")
    upkeep, _ = start(DeviceFact("n1", "r/a", "dev-0"), ill, demands=(vm("a"),))
    after = upkeep.apply(Changes({1: DeviceFact("n1", "r/a", "dev-1", "gone")}))
    assert after.stocks["n1", "r/a"].counts.reserved == 1


def test_what_one_has_on_a_node_that_closes_is_looked_for_elsewhere_however_unhealthy_it_is() -> (
    None
):
    machine = vm("a", phase=Phase.PENDING)
    held = DeviceFact("n1", "r/a", "dev-0", "ill", machine.consumer)
    upkeep, before = start(held, DeviceFact("n2", "r/a", "dev-1"), demands=(machine,))
    assert before.stocks["n2", "r/a"].counts.free == 1
    after = upkeep.apply(Changes(nodes={"n1": NodeFact("n1", closed="the node is not ready")}))
    assert after.stocks["n2", "r/a"].counts.wanted == 1


def test_a_label_that_no_vm_asks_for_makes_no_stock_again() -> None:
    upkeep, before = start(DeviceFact("n1", "r/a", "dev-0"), demands=(vm("a"),))
    after = upkeep.apply(Changes(nodes={"n1": NodeFact("n1", {"rack": "7"})}))
    assert after.with_labels({"rack": "7"}) == {"n1"}
    assert after.stocks["n1", "r/a"].taken is before.stocks["n1", "r/a"].taken
