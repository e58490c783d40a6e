"""Which writes of virtual machines Laneway is asked about, and whether that may be left out."""

from __future__ import annotations

from typing import Any

import pytest

from kapilite.cel.program import CALL_LIMIT, Budget, program
from support.chart import Object, render

DEVICE = {"name": "a", "deviceName": "nvidia.com/A2"}
ASKING = "machines.laneway.harvesterhci.io"
KEPT = "kept-machines.laneway.harvesterhci.io"


@pytest.fixture(scope="module")
def entries() -> dict[str, list[Object]]:
    """The entries about virtual machines, by name; mutating and validating."""
    found: dict[str, list[Object]] = {ASKING: [], KEPT: []}
    for one in render():
        for webhook in one.get("webhooks", ()):
            if webhook["name"] in found:
                found[webhook["name"]].append(webhook)
    return found


def asked(entries: dict[str, list[Object]], new: Any, old: Any = None) -> list[str]:
    """The policies of those that are asked; mutating and validating ones agree."""
    scope = {"object": new, "oldObject": old}
    policies = []
    for webhooks in entries.values():
        conditions = [
            all(
                program(one["expression"]).evaluate(scope, Budget(CALL_LIMIT))
                for one in webhook["matchConditions"]
            )
            for webhook in webhooks
        ]
        assert len(set(conditions)) == 1
        policies += [webhooks[0]["failurePolicy"]] * conditions[0]
    return policies


def instance(**devices: Any) -> Any:
    return {"spec": {"domain": {"devices": devices}}}


def machine(labels: Any = None, *, spec: Any = None, **devices: Any) -> Any:
    return {
        "metadata": {"labels": labels or {}},
        "spec": {"template": instance(**devices), **(spec or {})},
    }


def pool(inner: Any) -> Any:
    return {"spec": {"replicas": 2, "virtualMachineTemplate": inner}}


@pytest.mark.parametrize("kind", ["hostDevices", "gpus"])
@pytest.mark.parametrize("wrapped", [instance, machine, lambda **d: pool(machine(**d))])
def test_what_requests_devices_is_refused_while_the_webhook_does_not_answer(
    entries: Any, kind: str, wrapped: Any
) -> None:
    new = wrapped(**{kind: [DEVICE]})
    assert asked(entries, new) == ["Fail"]
    assert asked(entries, new, wrapped()) == ["Fail"]


@pytest.mark.parametrize("wrap", [lambda it: it, pool])
def test_an_instance_type_may_have_devices(entries: Any, wrap: Any) -> None:
    assert asked(entries, wrap(machine(spec={"instancetype": {"name": "x"}}))) == ["Fail"]


@pytest.mark.parametrize("wrapped", [instance, machine, lambda **d: pool(machine(**d))])
def test_what_has_no_devices_is_not_sent(entries: Any, wrapped: Any) -> None:
    assert asked(entries, wrapped()) == []
    assert asked(entries, wrapped(hostDevices=[], gpus=[]), wrapped()) == []
    assert asked(entries, {"spec": {"template": {"spec": {"domain": {}}}}}) == []


def test_what_keeps_its_devices_or_loses_them_is_not_held_up(entries: Any) -> None:
    old = machine(gpus=[DEVICE])
    assert asked(entries, machine({"a": "b"}, gpus=[DEVICE]), old) == ["Ignore"]
    assert asked(entries, machine(), old) == ["Ignore"]
    # To start it is to request its devices.
    assert asked(entries, machine(gpus=[DEVICE], spec={"runStrategy": "Always"}), old) == ["Fail"]
