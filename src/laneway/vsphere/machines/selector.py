"""Label selectors, as Kubernetes means them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether labels fulfil all of a selector; an empty one is fulfilled by any."""
    equal = selector.get("matchLabels") or {}
    rules = selector.get("matchExpressions") or []
    return all(labels.get(key) == value for key, value in equal.items()) and all(
        _fulfils(rule, labels) for rule in rules
    )


def _fulfils(rule: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = rule.get("key", ""), rule.get("values") or []
    match rule.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False
