"""`matchConditions`: expressions that all have to hold before a webhook is asked.

As in Kubernetes: one that is false settles it, whatever error another one ends in; an error that is
left is the webhook's failure policy's to answer, by skipping it or by refusing the write. What is
beyond this server, `authorizer`, does not compile, so no condition is stored that cannot be held
against a write.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite.admission.review import request
from kapilite.cel.checker import check
from kapilite.cel.program import CALL_LIMIT, Budget, CostExceeded, program
from kapilite.cel.syntax import CelSyntaxError
from kapilite.cel.types import BOOL, DYN, STRING, Type, list_of, map_of, object_of
from kapilite.cel.values import CelError
from kapilite.errors import ApiError
from kapilite.problems import Problem, duplicate, invalid, required, too_many

if TYPE_CHECKING:
    from kapilite.admission.attributes import Attributes
    from kapilite.admission.matching import Match

_MOST = 64

_RESOURCE = object_of({"group": STRING, "version": STRING, "resource": STRING})
_KIND = object_of({"group": STRING, "version": STRING, "kind": STRING})
_REQUEST = object_of(
    {
        "kind": _KIND,
        "resource": _RESOURCE,
        "subResource": STRING,
        "requestKind": _KIND,
        "requestResource": _RESOURCE,
        "requestSubResource": STRING,
        "name": STRING,
        "namespace": STRING,
        "operation": STRING,
        "userInfo": object_of(
            {
                "username": STRING,
                "uid": STRING,
                "groups": list_of(STRING),
                "extra": map_of(STRING, list_of(STRING)),
            }
        ),
        "dryRun": BOOL,
        "options": DYN,
    }
)
_VARIABLES: dict[str, Type] = {"object": DYN, "oldObject": DYN, "request": _REQUEST}


def problems(at: str, conditions: Sequence[dict[str, Any]]) -> Iterator[Problem]:
    """What is wrong with the conditions of a webhook."""
    if len(conditions) > _MOST:
        yield too_many(at, len(conditions), _MOST)
    known: set[str] = set()
    for index, condition in enumerate(conditions):
        field, name = f"{at}[{index}]", condition.get("name") or ""
        if not name:
            yield required(f"{field}.name")
        for text in names.qualified_name(name) if name else ():
            yield invalid(f"{field}.name", name, text)
        if name in known:
            yield duplicate(f"{field}.name", name)
        known.add(name)
        expression = (condition.get("expression") or "").strip()
        if not expression:
            yield required(f"{field}.expression")
        elif why := _mistake(expression):
            yield invalid(f"{field}.expression", condition["expression"], why)


@functools.lru_cache(maxsize=256)
def _mistake(text: str) -> str:
    try:
        found = check(text, program(text).tree, _VARIABLES)
    except CelSyntaxError as error:
        return f"compilation failed: {error}"
    return "" if found in (BOOL, DYN) else "must evaluate to bool"


def hold(match: Match, attributes: Attributes) -> bool:
    """Whether the webhook is to be asked. Raises ApiError where the write is refused instead."""
    conditions = match.webhook.conditions
    if not conditions:
        return True
    asked = request(match, attributes, "")["request"]
    variables = {"object": asked["object"], "oldObject": asked["oldObject"], "request": asked}
    errors = []
    for expression in conditions:
        try:
            value = program(expression).evaluate(variables, Budget(CALL_LIMIT))
        except (CelError, CostExceeded) as error:
            errors.append(f"expression '{expression}' resulted in error: {error or 'too costly'}")
            continue
        if value is False:
            return False
        if value is not True:
            errors.append(f"expression '{expression}' does not evaluate to bool")
    if not errors:
        return True
    if match.webhook.ignore_failure:
        return False
    kind = attributes.kind
    raise ApiError(
        403,
        "Forbidden",
        f'{kind.resource} "{attributes.name}" is forbidden: {"; ".join(errors)}',
        name=attributes.name,
        kind=kind.plural,
        **({"group": kind.group} if kind.group else {}),
    )
