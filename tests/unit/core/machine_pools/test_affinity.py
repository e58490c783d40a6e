"""Where the machines of a pool may be."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from laneway.core.machine_pools.affinity import AffinityError, nodes, read

LABELS = {"n1": {"zone": "a", "gpus": "2"}, "n2": {"zone": "b"}, "n3": {"gpus": "x"}}


def affinity(*terms: Any) -> str:
    required = {"nodeSelectorTerms": list(terms)}
    return json.dumps(
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    )


def test_rules_without_end_are_refused() -> None:
    """Each is compared with each node, whenever a pool of anybody is judged."""
    values = [f"v{number}" for number in range(1_000)]
    with pytest.raises(AffinityError, match="more than 1000 rules and values"):
        read(affinity({"matchExpressions": [rule("zone", "In", *values)]}))
    with pytest.raises(AffinityError, match="longer than 65536 characters"):
        read(affinity({"matchExpressions": [rule("zone", "In", "v" * 70_000)]}))


def where(*rules: Any) -> frozenset[str]:
    return nodes(read(affinity({"matchExpressions": list(rules)})) or (), LABELS)


def rule(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_the_rules_of_kubernetes() -> None:
    assert where(rule("zone", "In", "a", "b")) == {"n1", "n2"}
    assert where(rule("zone", "NotIn", "a")) == {"n2", "n3"}
    assert where(rule("zone", "Exists")) == {"n1", "n2"}
    assert where(rule("zone", "DoesNotExist")) == {"n3"}
    assert where(rule("gpus", "Gt", "1")) == {"n1"}
    assert where(rule("gpus", "Lt", "1")) == frozenset()
    assert where(rule("zone", "In", "a"), rule("gpus", "Lt", "3")) == {"n1"}
    assert where(rule("zone", "Odd", "a")) == frozenset()


def test_one_of_several_terms_is_enough_and_an_empty_one_holds_nowhere() -> None:
    by_name = {"matchFields": [rule("metadata.name", "In", "n2")]}
    text = affinity({}, by_name, {"matchExpressions": [rule("zone", "In", "a")]})
    assert nodes(read(text) or (), LABELS) == {"n1", "n2"}


@pytest.mark.parametrize("text", ["", "{}", '{"nodeAffinity":null}', '{"podAffinity":{}}'])
def test_no_rule_about_nodes(text: str) -> None:
    assert read(text) is None


def test_base64_is_read_as_harvesters_driver_does() -> None:
    text = base64.b64encode(affinity({"matchExpressions": [rule("zone", "Exists")]}).encode())
    assert nodes(read(text.decode()) or (), LABELS) == {"n1", "n2"}


@pytest.mark.parametrize("text", ["{", "[]", '"x"', affinity(3), "[" * 9000])
def test_what_is_no_affinity_is_named(text: str) -> None:
    with pytest.raises(AffinityError, match="vmAffinity is not an affinity as JSON: "):
        read(text)
