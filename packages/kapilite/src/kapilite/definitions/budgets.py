"""What the rules of a definition may cost: each for itself, and all of a version together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite import problems as problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.cel.rules import Cost
    from kapilite.problems import Problem

LIMIT = 10_000_000
TOTAL_LIMIT = 100_000_000
_TOLD = 4
"""So many of the most expensive rules are told, if each is a hundredth of the limit."""


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
