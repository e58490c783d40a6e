"""An object held against the keywords of a structural schema, with Kubernetes' own error texts.

How long it may take is bounded: a schema of thousands of alternatives held against thousands of
values would keep everybody waiting, so such an object is refused.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.gotext.numbers import number_text
from kapilite.schemas import regex
from kapilite.schemas.comparing import same
from kapilite.schemas.formats import is_format
from kapilite.schemas.schema import Schema, children, joined, old_members

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

ABSENT = object()

STEPS_LIMIT = 300_000
"""Pairs of a schema and a value that are held against each other for one object."""
PROBLEMS_LIMIT = 100
"""After so many the rest of a map or list is not looked at; no user reads more."""
_COMPARED = 64
"""Values of an enumeration that are compared in about the time of a step."""

_TYPE = "FieldValueTypeInvalid"
_LOGIC = frozenset({"allOf", "anyOf", "oneOf", "not"})


def check(schema: Schema, value: Any, old: Any = ABSENT) -> list[Problem]:
    """What breaks a keyword; `old` is what an update replaces. Raises TooLongError."""
    return _Check().value(schema, value, "", old)


def type_name(value: Any) -> str:
    """The JSON schema type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            # A larger one is decoded as a floating-point number.
            return "integer" if -(2**63) <= value < 2**63 else "number"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


class TooLongError(Exception):
    """The steps are used up."""


class _Check:
    """One object held against its schema, with the steps that are left for it."""

    def __init__(self) -> None:
        self._left = STEPS_LIMIT

    def value(self, schema: Schema, value: Any, path: str, old: Any = ABSENT) -> list[Problem]:
        # What `==` calls equal may still be 1 for `true`; it is just much faster to tell unequal.
        if old is not ABSENT and value == old and same(value, old):
            return []
        self._left -= 1 + len(schema.get("enum") or ()) // _COMPARED
        if self._left < 0:
            raise TooLongError
        if value is None and schema.get("nullable"):
            allowed = schema.get("enum", [None])
            return [] if None in allowed else [problem.not_supported(path, None, allowed)]
        found = list(self._here(schema, value, path))
        is_other = bool(found) and found[0].field == path and found[0].reason == _TYPE
        if not is_other and not (isinstance(value, dict) and _count_problem(schema, value, path)):
            before = {} if old is ABSENT else old_members(schema, value, old)
            for key, child, sub in children(schema, value):
                found += self.value(sub, child, joined(path, key), before.get(key, ABSENT))
                if len(found) >= PROBLEMS_LIMIT:
                    break
        return found

    def _here(self, schema: Schema, value: Any, path: str) -> Iterator[Problem]:
        wanted = schema.get("type")
        if schema.get("x-kubernetes-int-or-string"):
            is_right = isinstance(value, str) or _has_type(value, "integer")
            wanted = "integer,string"
        else:
            is_right = not wanted or _has_type(value, wanted)
        if not is_right:
            yield problem.wrong_type(path, type_name(value), str(wanted))
        if "enum" in schema and not _is_among(value, schema["enum"]):
            yield problem.not_supported(path, value, schema["enum"])
        if is_right:
            yield from _bounds(schema, value, path)
        if not _LOGIC.isdisjoint(schema):
            yield from self._logic(schema, value, path)

    def _logic(self, schema: Schema, value: Any, path: str) -> Iterator[Problem]:
        for sub in schema.get("allOf") or ():
            yield from self.value(sub, value, path)
        if "anyOf" in schema:
            tried = [(sub, self.value(sub, value, path)) for sub in schema["anyOf"]]
            if all(found for _, found in tried):
                yield _choice(f'"{path}" must validate at least one schema (anyOf)')
                yield from _nearest(tried, value)
        if "oneOf" in schema:
            tried = [(sub, self.value(sub, value, path)) for sub in schema["oneOf"]]
            count = sum(not found for _, found in tried)
            if count != 1:
                which = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
                yield _choice(f'"{path}" must validate one and only one schema (oneOf). {which}')
            if count == 0:
                yield from _nearest(tried, value)
        if "not" in schema and not self.value(schema["not"], value, path):
            yield _choice(f'"{path}" must not validate the schema (not)')


def _is_among(value: Any, allowed: list[Any]) -> bool:
    if isinstance(value, str):
        return value in allowed
    return any(same(value, item) for item in allowed)


def _has_type(value: Any, wanted: str) -> bool:
    found = type_name(value)
    if found == wanted:
        return True
    if wanted == "number":
        return found == "integer"
    return wanted == "integer" and found == "number" and abs(value) < 2**53 and value == int(value)


def _bounds(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    match value:
        case bool() | None:
            return
        case str():
            yield from _string(schema, value, path)
        case int() | float():
            yield from _number(schema, value, path)
        case list():
            count = len(value)
            if count > schema.get("maxItems", count):
                yield problem.too_many(path, count, schema["maxItems"])
            if count < schema.get("minItems", 0):
                text = f"{path} in body should have at least {schema['minItems']} items"
                yield problem.invalid(path, count, text)
        case dict():
            yield from _object(schema, value, path)


def _string(schema: Schema, value: str, path: str) -> Iterator[Problem]:
    if len(value) > schema.get("maxLength", len(value)):
        yield problem.too_long(path, schema["maxLength"])
    if len(value) < schema.get("minLength", 0):
        text = f"{path} in body should be at least {schema['minLength']} chars long"
        yield problem.invalid(path, value, text)
    pattern = schema.get("pattern")
    if pattern:
        yield from _unmatched(pattern, value, path)
    name = schema.get("format", "")
    if not is_format(name, value):
        yield problem.invalid(path, value, f'{path} in body must be of type {name}: "{value}"')


def _unmatched(pattern: str, value: str, path: str) -> Iterator[Problem]:
    try:
        if not regex.search(pattern, value):
            yield problem.invalid(path, value, f"{path} in body should match '{pattern}'")
    except regex.TooLongError as error:
        yield problem.forbidden(path, str(error))


def _number(schema: Schema, value: float, path: str) -> Iterator[Problem]:
    low, high = _limit(value, schema.get("minimum")), _limit(value, schema.get("maximum"))
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield problem.invalid(path, value, f"{path} in body should be {word} {number_text(low)}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield problem.invalid(path, value, f"{path} in body should be {word} {number_text(high)}")
    step = schema.get("multipleOf")
    if step and not _is_multiple(value, step):
        text = f"{path} in body should be a multiple of {number_text(_limit(value, step) or step)}"
        yield problem.invalid(path, value, text)


def _limit(value: float, limit: float | None) -> float | None:
    """Kubernetes holds whole numbers against the whole part of a limit."""
    if limit is None:
        return None
    return int(limit) if isinstance(value, int) else float(limit)


def _is_multiple(value: float, step: float) -> bool:
    if isinstance(value, int) and float(step).is_integer():
        return value % int(step) == 0
    ratio = value / step
    return abs(ratio) < 2**53 and math.isclose(ratio, round(ratio), rel_tol=1e-9)


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Problem]:
    wrong = _count_problem(schema, value, path)
    if wrong is not None:
        yield wrong
        return
    for name in schema.get("required") or ():
        if name not in value:
            yield problem.required(joined(path, name))


def _count_problem(schema: Schema, value: dict[str, Any], path: str) -> Problem | None:
    """Too many or too few members; then nothing is said about the members themselves."""
    count = len(value)
    if count > schema.get("maxProperties", count):
        return problem.too_many(path, count, schema["maxProperties"])
    if count < schema.get("minProperties", 0):
        least = schema["minProperties"]
        return problem.invalid(
            path, least, f"{path} in body should have at least {least} properties"
        )
    return None


def _choice(text: str) -> Problem:
    """Kubernetes names the place of these in the text only."""
    return problem.invalid("<nil>", "", text)


def _nearest(tried: list[tuple[Schema, list[Problem]]], value: Any) -> list[Problem]:
    """What is wrong with the alternative that says most about the value."""
    best: tuple[int, list[Problem]] = (-1, [])
    for sub, found in tried:
        count = _checks(sub, value)
        if count > best[0]:
            best = (count, found)
    return best[1]


def _checks(schema: Schema, value: Any) -> int:
    own = 1 + (isinstance(value, str) and "format" in schema)
    return own + sum(_checks(sub, child) for _, child, sub in children(schema, value))
