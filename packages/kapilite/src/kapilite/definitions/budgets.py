"""What the rules of a definition may cost: each for itself, and all of a version together.

How long they may be is bounded as well: nothing else is served while they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.cel.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.cel.rules import Cost
    from kapilite.problems import Problem

_EXPRESSIONS = ("rule", "messageExpression")
LIMIT = 10_000_000
TOTAL_LIMIT = 100_000_000
TEXT_LIMIT = 200_000
"""Characters of all expressions of a definition: a second. Definitions in use have a tenth."""
_TOLD = 4
"""So many of the most expensive rules are told, if each is a hundredth of the limit."""


def texts(value: Any, path: str) -> Iterator[Problem]:
    """Whether the rules in a part of a definition are longer than any honest ones."""
    size = _size(value)
    if size > TEXT_LIMIT:
        why = f"the rules have {size} characters together, the limit is {TEXT_LIMIT}"
        yield problem.forbidden(path, why)


def _size(value: Any) -> int:
    if isinstance(value, list):
        return sum(map(_size, value))
    if not isinstance(value, dict):
        return 0
    rules = value.get(RULES)
    # A property can have this name as well, and a default can hold anything.
    listed = [rule for rule in rules if isinstance(rule, dict)] if isinstance(rules, list) else []
    expressions = [rule.get(name) for rule in listed for name in _EXPRESSIONS]
    own = sum(len(text) for text in expressions if isinstance(text, str))
    return own + sum(map(_size, value.values()))


def each(costs: Iterable[Cost]) -> Iterator[Problem]:
    """The rules that cost too much by themselves."""
    for field, cost in costs:
        if cost > LIMIT:
            name = "rule" if field.endswith(".rule") else "messageExpression"
            yield problem.forbidden(field, _why(f"estimated {name} cost", cost, LIMIT))


def total(costs: list[Cost], path: str) -> Iterator[Problem]:
    """Whether they cost too much together."""
    cost = sum(one.estimate for one in costs)
    if cost <= TOTAL_LIMIT:
        return
    expensive = [one for one in costs if one.estimate >= TOTAL_LIMIT // 100]
    for field, _ in sorted(expensive, key=lambda one: -one.estimate)[:_TOLD]:
        why = (
            "contributed to estimated rule cost total exceeding cost limit for entire "
            "OpenAPIv3 schema"
        )
        yield problem.forbidden(field, why)
    what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield problem.forbidden(path, _why(what, cost, TOTAL_LIMIT))


def _why(what: str, cost: int, limit: int) -> str:
    factor = cost / limit
    times = "more than 100" if factor > 100 else f"{factor:.{6 if factor < 1.5 else 1}f}"
    return (
        f"{what} exceeds budget by factor of {times}x (try simplifying the rule, or adding "
        "maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
