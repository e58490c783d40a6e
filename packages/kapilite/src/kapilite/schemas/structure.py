"""An object held against the keywords of a structural schema, as Kubernetes does it.

The texts are Kubernetes' own, and so are its oddities: a keyword counts for every value that it can
be held against, whatever type the schema asks for; of a text's length, pattern and so on the first
that it breaks is named; a limit that is no number of the schema's type breaks every number. Of
several alternatives the problems of the one that says most about the value are named, for which
checks are counted.

How long it may take is bounded: a schema of thousands of alternatives held against thousands of
values would keep everybody waiting, and so would one of alternatives that each name a long value.
Such an object is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.schemas import regex
from kapilite.schemas.enums import is_among
from kapilite.schemas.formats import effective, is_format
from kapilite.schemas.numbers import number_problems, whole
from kapilite.schemas.ratcheting import ABSENT, is_unchanged, previous
from kapilite.schemas.schema import Schema, children, joined

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

STEPS_LIMIT = 300_000
"""Pairs of a schema and a value that are held against each other for one object."""
PROBLEMS_LIMIT = 100
"""After so many the rest of a map or list is not looked at; no user reads more."""
_COMPARED = 64
"""Values of an enumeration that are compared in about the time of a step."""
_TOLD = 100
"""Characters about a problem that are written in about the time of a step."""

_LOGIC = frozenset({"allOf", "anyOf", "oneOf", "not"})
_CHOICE = ("integer", "string")


def check(schema: Schema, value: Any, old: Any = ABSENT) -> list[Problem]:
    """What breaks a keyword; `old` is what an update replaces. Raises TooLongError."""
    return _Check().value(schema, value, "", old)


def check_default(schema: Schema, value: Any) -> list[Problem]:
    """What breaks a keyword of a default: Kubernetes lets pass what is not `int-or-string`."""
    return _Check(is_default=True).value(schema, value, "")


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

    def __init__(self, *, is_default: bool = False) -> None:
        self._is_default = is_default
        self._left = STEPS_LIMIT
        self._count = 0
        """Checks that were made, as Kubernetes counts them."""

    def value(self, schema: Schema, value: Any, path: str, old: Any = ABSENT) -> list[Problem]:
        if old is not ABSENT and is_unchanged(schema, value, old):
            return []
        self._left -= 1 + len(schema.get("enum") or ()) // _COMPARED
        if self._left < 0:
            raise TooLongError
        found: list[Problem] = []
        wanted = _types(schema, is_default=self._is_default)
        form = schema.get("format", "") if self._is_default else effective(schema)
        wrong = _wrong_type(wanted, form, value, path, is_nullable=bool(schema.get("nullable")))
        if wrong is not None:
            found.append(wrong)
        if value is None:
            self._count += wrong is None
        else:
            self._count += 4
            if form or wanted:
                self._count += 1 + (wrong is None)
            if not _LOGIC.isdisjoint(schema):
                found += self._logic(schema, value, path)
            found += self._by_kind(schema, form, value, path, old)
        if schema.get("enum") and not is_among(value, schema["enum"]):
            found.append(problem.not_supported(path, value, schema["enum"]))
        if found:
            self._left -= sum(len(one.message) for one in found) // _TOLD
        return found

    def _by_kind(self, schema: Schema, form: str, value: Any, path: str, old: Any) -> list[Problem]:
        match value:
            case bool():
                return []
            case str():
                self._count += 1 + bool(form)
                return list(_string(schema, form, value, path))
            case int() | float():
                self._count += 2
                return list(number_problems(schema, form, value, path))
            case list():
                self._count += 2
                return [*self._members(schema, value, path, old), *_list(schema, value, path)]
        self._count += 1
        return [*self._members(schema, value, path, old), *_object(schema, value, path)]

    def _members(
        self, schema: Schema, value: dict[str, Any] | list[Any], path: str, old: Any
    ) -> list[Problem]:
        found: list[Problem] = []
        before = {} if old is ABSENT else previous(schema, value, old)
        is_root = not path
        for key, child, sub in children(schema, value):
            earlier = before.get(key, ABSENT)
            if is_root and key in ("apiVersion", "kind"):
                earlier = ABSENT
            found += self.value(sub, child, joined(path, key), earlier)
            if len(found) >= PROBLEMS_LIMIT:
                break
        return found

    def _logic(self, schema: Schema, value: Any, path: str) -> Iterator[Problem]:
        if schema.get("anyOf"):
            yield from self._any_of(schema["anyOf"], value, path)
        if schema.get("oneOf"):
            yield from self._one_of(schema["oneOf"], value, path)
        if schema.get("allOf"):
            tried = [self.value(sub, value, path) for sub in schema["allOf"]]
            for wrong in tried:
                yield from wrong
            if any(tried):
                none = ". None validated" if all(tried) else ""
                yield _choice(f'"{path}" must validate all the schemas (allOf){none}')
        if "not" in schema:
            before = self._count
            if not self.value(schema["not"], value, path):
                yield _choice(f'"{path}" must not validate the schema (not)')
            self._count = before

    def _any_of(self, subs: list[Schema], value: Any, path: str) -> Iterator[Problem]:
        start, best = self._count, -1
        nearest: list[Problem] = []
        for sub in subs:
            wrong, count = self._tried(sub, value, path, start)
            if not wrong:
                self._count = start + count
                return
            if count > best:
                best, nearest = count, wrong
        self._count = start + best
        yield _choice(f'"{path}" must validate at least one schema (anyOf)')
        yield from nearest

    def _one_of(self, subs: list[Schema], value: Any, path: str) -> Iterator[Problem]:
        start, best = self._count, -1
        nearest: list[Problem] = []
        fitting: list[int] = []
        for sub in subs:
            wrong, count = self._tried(sub, value, path, start)
            if not wrong:
                fitting.append(count)
            elif count > best:
                best, nearest = count, wrong
        if len(fitting) == 1:
            self._count = start + fitting[0]
            return
        self._count = start + (0 if fitting else best)
        which = f"Found {len(fitting)} valid alternatives" if fitting else "Found none valid"
        yield _choice(f'"{path}" must validate one and only one schema (oneOf). {which}')
        yield from () if fitting else nearest

    def _tried(self, sub: Schema, value: Any, path: str, start: int) -> tuple[list[Problem], int]:
        """What is wrong with an alternative, and how many checks it took."""
        self._count = start
        wrong = self.value(sub, value, path)
        return wrong, self._count - start


def _types(schema: Schema, *, is_default: bool) -> tuple[str, ...]:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string") and not is_default:
        return _CHOICE
    return (kind,) if kind else ()


def _wrong_type(
    wanted: tuple[str, ...], form: str, value: Any, path: str, *, is_nullable: bool
) -> Problem | None:
    found = type_name(value)
    if found in wanted:
        return None
    if value is None:
        is_allowed = is_nullable or not wanted
        return None if is_allowed else problem.wrong_type(path, found, ",".join(wanted))
    is_numeric = "integer" in wanted or "number" in wanted
    if form and isinstance(value, str | list):
        if not is_numeric:
            return None  # the format decides, and for lists nothing does
    elif form and not _is_other_number(found, value, wanted):
        width = {"integer": "int64", "number": "float64"}.get(found, "")
        return None if width == form else problem.wrong_type(path, width, form)
    if not wanted or _is_other_number(found, value, wanted):
        return None
    return problem.wrong_type(path, found, ",".join(wanted))


def _is_other_number(found: str, value: Any, wanted: tuple[str, ...]) -> bool:
    """An integer where a number is expected, or a whole number where an integer is."""
    if found == "integer":
        return "number" in wanted
    return found == "number" and "integer" in wanted and whole(float(value))


def _list(schema: Schema, value: list[Any], path: str) -> Iterator[Problem]:
    count, least, most = len(value), schema.get("minItems"), schema.get("maxItems")
    if least is not None and count < least:
        text = f"{path} in body should have at least {least} items"
        yield problem.invalid(path, count, text)
    if most is not None and count > most:
        yield problem.too_many(path, count, most)


def _string(schema: Schema, form: str, value: str, path: str) -> Iterator[Problem]:
    most, least, pattern = (schema.get(name) for name in ("maxLength", "minLength", "pattern"))
    if most is not None and len(value) > most:
        yield problem.too_long(path, most)
    elif least is not None and len(value) < least:
        text = f"{path} in body should be at least {least} chars long"
        yield problem.invalid(path, value, text)
    elif pattern:
        yield from _unmatched(pattern, value, path)
    if form and not is_format(form, value):
        yield problem.wrong_type(path, value, form)


def _unmatched(pattern: str, value: str, path: str) -> Iterator[Problem]:
    try:
        if not regex.search(pattern, value):
            yield problem.invalid(path, value, f"{path} in body should match '{pattern}'")
    except regex.TooLongError as error:
        yield problem.forbidden(path, str(error))


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Problem]:
    count, least, most = len(value), schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and count < least:
        text = f"{path} in body should have at least {least} properties"
        yield problem.invalid(path, least, text)
    if most is not None and count > most:
        yield problem.too_many(path, count, most)
    if schema.get("additionalProperties") is False:
        known = schema.get("properties") or ()
        for name in value:
            if name not in known:
                yield problem.invalid(path, "", f"{path}.{name} in body is a forbidden property")
    for name in schema.get("required") or ():
        if name not in value:
            yield problem.required(joined(path, name))


def _choice(text: str) -> Problem:
    """Kubernetes names the place of these in the text only."""
    return problem.invalid("<nil>", "", text)
