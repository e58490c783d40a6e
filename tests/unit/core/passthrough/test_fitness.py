"""What can be worked with at all."""

from __future__ import annotations

from laneway.core.inventory import DeviceError, Inventory
from laneway.core.passthrough.fitness import find, unfit
from laneway.core.refusals import DeviceNotFound, DeviceQuarantined
from support.cards import CARD, scene


def test_a_healthy_function_has_nothing_against_it() -> None:
    healthy = scene().situation
    assert find(CARD, healthy) is healthy.inventory.functions[0]
    assert unfit(CARD, healthy) == ()


def test_an_odd_attribute_does_not_make_a_function_unfit() -> None:
    inventory = scene().situation.inventory
    odd = DeviceError(str(CARD), "numa_node: not a number: 'x'")
    one = scene().but(inventory=Inventory(functions=inventory.functions, errors=(odd,)))
    assert unfit(CARD, one.situation) == ()


def test_a_function_that_could_not_be_read_is_not_called_missing() -> None:
    failed = DeviceError(str(CARD), "cannot be read: Input/output error")
    [refusal] = unfit(CARD, scene().but(inventory=Inventory(errors=(failed,))).situation)
    assert "cannot be read: Input/output error" in refusal.words
    missing = scene().but(inventory=Inventory()).situation
    assert unfit(CARD, missing) == (DeviceNotFound(str(CARD)),)


def test_quarantine_and_silence_are_both_reported() -> None:
    one = scene().but(quarantined={CARD: ""}, silent=frozenset({CARD})).situation
    silent, quarantined = unfit(CARD, one)
    assert "all ones" in silent.words
    assert quarantined == DeviceQuarantined(str(CARD), "")
    assert f"--lift {CARD}" in quarantined.words
