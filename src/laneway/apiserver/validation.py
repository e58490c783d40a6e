"""An object held against a structural schema, with Kubernetes' own error texts.

`problems` is total: any JSON value and any schema that `crds` let in give a list. Of
`x-kubernetes-validations` the transition rule `self == oldSelf` is known, at any place where the
old value can be found again; `crds` refuses every other rule, so none is silently ignored.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import functools
import ipaddress
import math
import re
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from laneway.apiserver import problems as problem
from laneway.apiserver.schema import Schema, children, joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from laneway.apiserver.problems import Problem

ABSENT = object()


def problems(schema: Schema, value: Any, old: Any = ABSENT) -> list[Problem]:
    """Everything wrong with `value`; `old` is what an update replaces."""
    found = list(_value(schema, value, ""))
    if old is not ABSENT:
        found.extend(_transition(schema, value, old, ""))
    return found


def is_immutable_rule(rule: object) -> bool:
    """Whether this is the one transition rule that is evaluated."""
    return isinstance(rule, str) and "".join(rule.split()) == "self==oldSelf"


def type_name(value: Any) -> str:
    """The JSON schema type of a value."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"


def _value(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    if value is None and schema.get("nullable"):
        return
    wanted = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if type_name(value) not in ("integer", "string"):
            yield problem.wrong_type(path, type_name(value), "integer,string")
            return
    elif wanted and not _has_type(value, wanted):
        yield problem.wrong_type(path, type_name(value), wanted)
        return
    yield from _bounds(schema, value, path)
    yield from _logic(schema, value, path)
    for key, child, sub in children(schema, value):
        yield from _value(sub, child, joined(path, key))


def _has_type(value: Any, wanted: str) -> bool:
    found = type_name(value)
    if found == wanted:
        return True
    if wanted == "number":
        return found == "integer"
    return wanted == "integer" and isinstance(value, float) and value.is_integer()


def _bounds(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    if "enum" in schema and not any(same(value, item) for item in schema["enum"]):
        yield problem.not_supported(path, value, schema["enum"])
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
    if pattern and not compiled(pattern).search(value):
        yield problem.invalid(path, value, f"{path} in body should match '{pattern}'")
    name = schema.get("format", "")
    if name in _FORMATS and not _FORMATS[name](value):
        yield problem.invalid(path, value, f'{path} in body must be of type {name}: "{value}"')


def _number(schema: Schema, value: float, path: str) -> Iterator[Problem]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and (value < low or (schema.get("exclusiveMinimum") and value == low)):
        word = "greater than" if schema.get("exclusiveMinimum") else "greater than or equal to"
        yield problem.invalid(path, value, f"{path} in body should be {word} {low}")
    if high is not None and (value > high or (schema.get("exclusiveMaximum") and value == high)):
        word = "less than" if schema.get("exclusiveMaximum") else "less than or equal to"
        yield problem.invalid(path, value, f"{path} in body should be {word} {high}")
    step = schema.get("multipleOf")
    if step and not math.isclose(value / step, round(value / step)):
        yield problem.invalid(path, value, f"{path} in body should be a multiple of {step}")
    bits = {"int32": 31, "int64": 63}.get(schema.get("format", ""))
    if bits and schema.get("type") == "integer" and not -(2**bits) <= value < 2**bits:
        text = f"Checked value must be of type integer with format {schema['format']} in {path}"
        yield problem.invalid(path, value, text)


def _object(schema: Schema, value: dict[str, Any], path: str) -> Iterator[Problem]:
    for name in schema.get("required") or ():
        if name not in value:
            yield problem.required(joined(path, name))
    count = len(value)
    if count > schema.get("maxProperties", count):
        yield problem.too_many(path, count, schema["maxProperties"])
    if count < schema.get("minProperties", 0):
        text = f"{path} in body should have at least {schema['minProperties']} properties"
        yield problem.invalid(path, count, text)


def _logic(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    def fits(sub: Schema) -> bool:
        return next(_value(sub, value, path), None) is None

    if "allOf" in schema:
        for sub in schema["allOf"]:
            yield from _value(sub, value, path)
    if "anyOf" in schema and not any(fits(sub) for sub in schema["anyOf"]):
        text = f'"{path}" must validate at least one schema (anyOf)'
        yield problem.invalid(path, "", text)
    if "oneOf" in schema:
        count = sum(fits(sub) for sub in schema["oneOf"])
        if count != 1:
            which = "Found none valid" if count == 0 else f"Found {count} valid alternatives"
            text = f'"{path}" must validate one and only one schema (oneOf). {which}'
            yield problem.invalid(path, "", text)
    if "not" in schema and fits(schema["not"]):
        yield problem.invalid(path, "", f'"{path}" must not validate the schema (not)')


def _transition(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Problem]:
    for rule in schema.get("x-kubernetes-validations") or ():
        if not same(value, old):
            message = rule.get("message") or f"failed rule: {rule['rule']}"
            reason = rule.get("reason", "FieldValueInvalid")
            if reason == "FieldValueForbidden":
                yield problem.forbidden(path, message)
            else:
                yield problem.invalid(path, schema.get("type", "object"), message, reason)
    before = _correlated(schema, old)
    for key, child, sub in children(schema, value):
        name = _list_key(schema, child) if isinstance(key, int) else key
        if name in before:
            yield from _transition(sub, child, before[name], joined(path, key))


def _correlated(schema: Schema, old: Any) -> dict[Any, Any]:
    """The old members by what finds them again: the field's name, or a map list's keys."""
    if isinstance(old, dict):
        return old
    if isinstance(old, list) and schema.get("x-kubernetes-list-type") == "map":
        return {_list_key(schema, item): item for item in old}
    return {}


def _list_key(schema: Schema, member: Any) -> Any:
    if schema.get("x-kubernetes-list-type") == "map" and isinstance(member, dict):
        return tuple(repr(member.get(key)) for key in schema["x-kubernetes-list-map-keys"])
    return None


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: unlike in Python, `true` is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


# In Python `$` also matches before a final newline, in Go only at the end; a class keeps its `$`.
_ANCHOR = re.compile(r"\\z|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\$", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern in Go's syntax."""
    return re.compile(
        _ANCHOR.sub(lambda m: r"\Z" if m[0] in ("$", r"\z") else m[0], pattern), re.ASCII
    )


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _date_time(text: str) -> bool:
    if not _DATE_TIME.fullmatch(text):
        return False
    # Python keeps six digits of a second, RFC 3339 has no limit.
    return _parses(datetime.datetime.fromisoformat)(re.sub(r"\.\d+", "", text.upper()))


_FORMATS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "date": _parses(datetime.date.fromisoformat),
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "cidr": _parses(ipaddress.ip_network),
    "mac": lambda text: bool(re.fullmatch(r"[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}", text)),
    "uuid": _parses(uuid.UUID),
    "uri": _parses(urlsplit),
}
