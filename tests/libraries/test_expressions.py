"""Expressions of CEL, read by kapilite and by Kubernetes' libraries: one verdict."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from hypothesis import given, settings

from kapilite.cel.checker import check, checked
from kapilite.cel.costs import estimate
from kapilite.cel.kubernetes import Format
from kapilite.cel.program import Budget, CostExceeded, program
from kapilite.cel.quantities import Quantity
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DOUBLE, DYN, INT, STRING, kind_of
from kapilite.cel.values import CelError, Optional, TypeValue
from kapilite.gotext.numbers import number_text
from kapilite.gotext.urls import Url
from kubebasics import quantity
from support.expressions import expressions

MANY = settings(max_examples=2000, print_blob=True)

TYPES = {"n": INT, "s": STRING, "b": BOOL, "d": DOUBLE, "o": DYN, "l": DYN}
VARIABLES: dict[str, Any] = {
    "n": 7,
    "s": "a-b.c/d",
    "b": True,
    "d": 1.5,
    "o": {"a": 1},
    "l": [1, 2.5, "x", None, [2]],
}
SCOPE = {"n": "int", "s": "string", "b": "bool", "d": "double", "o": "dyn", "l": "dyn"}


_LARGEST = quantity.LARGEST * quantity.NANO


def ours(text: str) -> Any:
    """Type, kind and value; "refused" before it is evaluated, "error" while it is."""
    try:
        kind = check(text, program(text).tree, TYPES)
    except CelSyntaxError:
        return "refused"
    try:
        value = program(text).evaluate(VARIABLES, Budget(1_000_000))
    except (CelError, CostExceeded):
        return "error"
    return str(kind), kind_of(value), value


def is_same(found: Any, answer: dict[str, Any]) -> bool:
    for verdict in ("refused", "error"):
        if verdict in answer:
            return bool(found == verdict)
    if not isinstance(found, tuple):
        return False
    kind, kind_of_value, value = found
    return (kind, kind_of_value) == (answer["type"], answer["kind"]) and _is_written(
        value, answer["value"]
    )


def _is_written(value: Any, text: Any) -> bool:
    """Whether the checker writes a value so."""
    match value:
        case Optional():
            return _is_written(value.value, text) if value.present else text == "optional.none()"
        case dict():
            written = {_key(key): item for key, item in value.items()}
            return written.keys() == text.keys() and all(
                _is_written(item, text[key]) for key, item in written.items()
            )
        case list():
            return len(value) == len(text) and all(map(_is_written, value, text))
        case Quantity():
            return bool(quantity.value(text) == max(-_LARGEST, min(value.nanos, _LARGEST)))
        case Format() | Url():
            return isinstance(text, str)
        case float():
            return bool(
                float(text) == value if math.isfinite(value) else text == number_text(value)
            )
        case bytes():
            return bool(text == base64.b64encode(value).decode())
        case TypeValue():
            return bool(text == value.name)
        case None | bool() | int():
            return bool(text == value)
    return bool(text == str(value))


def _key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


@MANY
@given(text=expressions(SCOPE))
def test_expressions(checker: Any, text: str) -> None:
    types = {name: str(kind) for name, kind in TYPES.items()}
    answer = checker.ask("cel", expression=text, variables=VARIABLES, types=types)
    found = ours(text)
    assert is_same(found, answer), (text, found, answer)
    if found != "refused":
        tree = program(text).tree
        cost = estimate(tree, checked(text, tree, TYPES), None)
        # Of large costs, which come from what has no limit, Go loses the last digits.
        assert cost == pytest.approx(answer["estimate"][1], rel=1e-9), (text, cost, answer)
