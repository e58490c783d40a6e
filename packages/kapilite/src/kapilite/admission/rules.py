"""What is wrong with a rule of a webhook, in the words of Kubernetes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kapilite.problems import Problem, invalid, not_supported, required

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES = ("*", "Cluster", "Namespaced")


def problems(at: str, rule: dict[str, Any]) -> Iterator[Problem]:
    """What is wrong with the rule whose field is `at`."""
    yield from _list(
        f"{at}.operations", rule.get("operations") or (), "operations", "OperationType"
    )
    for index, operation in enumerate(rule.get("operations") or ()):
        if operation not in _OPERATIONS:
            yield not_supported(f"{at}.operations[{index}]", operation, _OPERATIONS)
    yield from _list(f"{at}.apiGroups", rule.get("apiGroups") or (), "API groups")
    versions = rule.get("apiVersions") or ()
    yield from _list(f"{at}.apiVersions", versions, "API versions")
    for index, version in enumerate(versions):
        if not version:
            yield required(f"{at}.apiVersions[{index}]")
    yield from _resources(f"{at}.resources", rule.get("resources") or ())
    if rule.get("scope") not in (None, *_SCOPES):
        yield not_supported(f"{at}.scope", rule["scope"], _SCOPES)


def invalid_list(field: str, values: Sequence[str], why: str, of: str = "string") -> Problem:
    """An Invalid about a whole list, which Kubernetes shows as its own code would write it."""
    shown = ", ".join(json.dumps(value, ensure_ascii=False) for value in values)
    kind = of if of == "string" else f"admissionregistration.{of}"
    return Problem("FieldValueInvalid", f"Invalid value: []{kind}{{{shown}}}: {why}", field)


def _list(field: str, values: Sequence[str], what: str, of: str = "string") -> Iterator[Problem]:
    if not values:
        yield required(field)
    elif len(values) > 1 and "*" in values:
        why = f"if '*' is present, must not specify other {what}"
        yield invalid_list(field, values, why, of)


def _resources(field: str, resources: Sequence[str]) -> Iterator[Problem]:
    if not resources:
        yield required(field)
    everything_of: set[str] = set()  # pods/*
    of_everything: set[str] = set()  # */status
    for index, pattern in enumerate(resources):
        at = f"{field}[{index}]"
        if not pattern:
            yield required(at)
        resource, slash, sub = pattern.partition("/")
        if not slash:
            continue
        if resource in everything_of:
            why = f"if '{resource}/*' is present, must not specify {pattern}"
            yield invalid(at, pattern, why)
        if sub in of_everything:
            why = f"if '*/{sub}' is present, must not specify {pattern}"
            yield invalid(at, pattern, why)
        if sub == "*":
            everything_of.add(resource)
        if resource == "*":
            of_everything.add(sub)
    if "*/*" in resources and len(resources) > 1:
        why = "if '*/*' is present, must not specify other resources"
        yield invalid_list(field, resources, why)
    if "*" in resources and any(r and r != "*" and "/" not in r for r in resources):
        why = "if '*' is present, must not specify other resources without subresources"
        yield invalid_list(field, resources, why)
