"""The ledger as numbers."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from laneway.controllers.ledger.metrics import LedgerCollector
from laneway.core.ledger.build import build
from laneway.core.ledger.facts import Consumer, ConsumerKind, Demand, DeviceFact, Facts, Phase
from laneway.core.ledger.ledger import Ledger

VM = Consumer(ConsumerKind.VM, "d", "a")


def registered(ledger: list[Ledger | None]) -> CollectorRegistry:
    registry = CollectorRegistry()
    registry.register(LedgerCollector(lambda: ledger[-1], lambda: 0.25))
    return registry


def devices(registry: CollectorRegistry, state: str) -> float | None:
    labels = {"node": "n1", "resource": "r/x", "state": state}
    return registry.get_sample_value("laneway_ledger_devices", labels)


def short(registry: CollectorRegistry, phase: str) -> float | None:
    labels = {"resource": "r/x", "phase": phase}
    return registry.get_sample_value("laneway_ledger_short", labels)


def test_states_and_shortages_are_counted() -> None:
    facts = Facts(
        (DeviceFact("n1", "r/x", "one", owner=VM), DeviceFact("n1", "r/x", "two")),
        (Demand(Consumer(ConsumerKind.VM, "d", "b"), Phase.PENDING, {"r/x": 3}),),
    )
    registry = registered([build(facts)])
    assert {state: devices(registry, state) for state in ("held", "free", "wanted")} == {
        "held": 1,
        "free": 1,
        "wanted": 0,
    }
    assert (short(registry, "pending"), short(registry, "stopped")) == (3, 0)
    assert registry.get_sample_value("laneway_ledger_build_seconds") == 0.25


def test_what_is_gone_is_counted_as_nothing() -> None:
    ledgers: list[Ledger | None] = [build(Facts((DeviceFact("n1", "r/x", "one"),)))]
    registry = registered(ledgers)
    assert devices(registry, "free") == 1
    ledgers.append(build(Facts()))
    assert devices(registry, "free") == 0


def test_who_knows_nothing_yet_says_nothing() -> None:
    registry = registered([None])
    assert list(registry.collect()) == []
