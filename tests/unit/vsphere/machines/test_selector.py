"""Label selectors."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.vsphere.machines.selector import selects

LABELS = {"tier": "gpu", "site": "north"}


@pytest.mark.parametrize(
    ("operator", "values", "key", "expected"),
    [
        ("In", ["gpu", "cpu"], "tier", True),
        ("In", ["cpu"], "tier", False),
        ("In", ["gpu"], "missing", False),
        ("NotIn", ["cpu"], "tier", True),
        ("NotIn", ["gpu"], "tier", False),
        ("NotIn", ["gpu"], "missing", True),
        ("Exists", None, "tier", True),
        ("Exists", None, "missing", False),
        ("DoesNotExist", None, "missing", True),
        ("DoesNotExist", None, "tier", False),
        ("Near", ["gpu"], "tier", False),
    ],
)
def test_expressions(operator: str, values: Any, key: str, expected: bool) -> None:
    rule = {"key": key, "operator": operator, "values": values}
    assert selects({"matchExpressions": [rule]}, LABELS) is expected


def test_all_of_a_selector_must_hold_and_an_empty_one_does() -> None:
    assert selects({}, LABELS)
    assert selects({"matchLabels": {"tier": "gpu"}}, LABELS)
    assert not selects({"matchLabels": {"tier": "gpu", "site": "south"}}, LABELS)
