"""An object held against a structural schema, with Kubernetes' own error texts.

`problems` is total: any JSON value and any schema that `crds` let in give a list. First the schema
itself, then what lists and embedded resources must be, then, if the object is sound, its rules.
What an update leaves as it was is not complained about, so that a stricter schema does not lock
its users out of the objects they have. An object that would take too long is refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import problems as problem
from kapilite.cel import evaluation
from kapilite.schemas.invariants import invariants, places_of
from kapilite.schemas.ratcheting import ABSENT
from kapilite.schemas.structure import TooLongError, check, check_default

if TYPE_CHECKING:
    from kapilite.cel.evaluation import Plan
    from kapilite.problems import Problem
    from kapilite.schemas.schema import Schema

_BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
_UNCHECKED = problem.invalid(
    "<nil>",
    None,
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)


def problems(schema: Schema, value: Any, old: Any = ABSENT) -> list[Problem]:
    """Everything wrong with `value`; `old` is what an update replaces."""
    found = _structure(schema, value, old)
    plan = _prepared(schema).plan
    if plan is None:
        return found
    if any(one.reason in _BLOCKING for one in found):
        return [*found, _UNCHECKED]
    return found + evaluation.problems(plan, value, None if old is ABSENT else old)


def _structure(schema: Schema, value: Any, old: Any = ABSENT) -> list[Problem]:
    """Everything wrong but the rules that are broken."""
    try:
        found = check(schema, value, old)
    except TooLongError:
        text = "the object is too large for a schema as extensive as that of its kind"
        return [problem.forbidden("<nil>", text)]
    found += invariants(schema, value, old, _prepared(schema).places)
    return found


def value_problems(schema: Schema, value: Any, *, is_root: bool = False) -> list[Problem]:
    """What is wrong with a value that no object has yet, such as a default."""
    if found := check_default(schema, value):
        return found
    try:
        plan = evaluation.plan(schema, is_root=is_root)
    except ValueError:
        return []  # A rule cannot be read, which is said of the rule.
    if plan is None:
        return []
    return evaluation.problems(plan, value, value) or evaluation.problems(plan, value, None)


def places(schema: Schema) -> frozenset[int]:
    """The parts of a schema, by `id`, with lists and embedded resources at or below them."""
    known = _known.get(id(schema))  # of a default, rules may not be readable
    return places_of(schema) if known is None else known.places


class _Prepared(NamedTuple):
    """What is made of a schema once."""

    schema: Schema
    """Kept alive, and so its id."""
    plan: Plan | None
    """Its rules, made ready."""
    places: frozenset[int]
    """Where it speaks of lists and embedded resources."""


_known: OrderedDict[int, _Prepared] = OrderedDict()
_KNOWN_LIMIT = 1024


def _prepared(schema: Schema) -> _Prepared:
    found = _known.get(id(schema))
    if found is None:
        plan = evaluation.plan(schema, is_root=True)
        found = _known[id(schema)] = _Prepared(schema, plan, places_of(schema))
        if len(_known) > _KNOWN_LIMIT:
            _known.popitem(last=False)
    else:
        _known.move_to_end(id(schema))
    return found
