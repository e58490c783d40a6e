"""What a rule sees of an object: types from the schema, values from JSON by the schema.

Names that are no identifiers are escaped as Kubernetes escapes them (`a-b` is `a__dash__b`). Parts
whose schema says nothing of their type cannot be reached. A value that does not fit its schema
becomes an error that surfaces where a rule touches it.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import TYPE_CHECKING, Any

from kapilite.cel import values
from kapilite.cel.syntax import RESERVED
from kapilite.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_of,
)
from kapilite.cel.values import CelError, MapList, SetList
from kapilite.schemas import formats

if TYPE_CHECKING:
    from collections.abc import Callable

Schema = dict[str, Any]

_NULL = math.nan
"""For a rule, a field that is null is not there, and equals nothing, not even another null."""

_TEXT = {"type": "string"}
_ROOT: dict[str, Schema] = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}

_SPECIAL = re.compile("__|[-./]")
_ESCAPES = {"__": "__underscores__", "-": "__dash__", ".": "__dot__", "/": "__slash__"}
_ESCAPABLE = re.compile("[A-Za-z_./-][A-Za-z0-9_./-]*")


def escaped(name: str) -> str | None:
    """The identifier for a field's name; None where there is none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


def properties_of(schema: Schema, *, is_root: bool) -> dict[str, Schema]:
    """The fields of an object; a resource always has its identity."""
    properties: dict[str, Schema] = schema.get("properties") or {}
    return {**properties, **_ROOT} if is_root else properties


def type_of(schema: Schema, *, is_root: bool = False) -> Type | None:
    """The type of a value with this schema; None where the schema does not tell."""
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    kind = "object" if is_root else schema.get("type")
    if kind == "array":
        item = _type_of_member(schema.get("items"))
        return list_of(item) if item else None
    if kind != "object":
        return _scalar(kind, schema.get("format", ""))
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        value = _type_of_member(extra)
        return map_of(STRING, value) if value else None
    fields: dict[str, Type] = {}
    for name, sub in properties_of(schema, is_root=is_root).items():
        field, found = escaped(name), _type_of_member(sub)
        if field and found:
            fields[field] = found
    return object_of(fields)


def _type_of_member(schema: Any) -> Type | None:
    if not isinstance(schema, dict):
        return None
    return type_of(schema, is_root=bool(schema.get("x-kubernetes-embedded-resource")))


def _scalar(kind: Any, name: str) -> Type | None:
    match kind, name:
        case "string", "byte":
            return BYTES
        case "string", "duration":
            return DURATION
        case "string", "date" | "date-time":
            return TIMESTAMP
        case "string", _:
            return STRING
        case "boolean", _:
            return BOOL
        case "number", _:
            return DOUBLE
        case "integer", _:
            return INT
    return None


def value_of(schema: Schema, value: Any, *, is_root: bool = False) -> Any:
    """The value that a rule computes with."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return _number(schema, value)
        case str():
            read = (
                _READERS.get(schema.get("format", "")) if schema.get("type") == "string" else None
            )
            return value if read is None else _or_error(read, value)
        case list():
            return _list(schema, value)
    return _object(schema, value, is_root=is_root)


def _number(schema: Schema, value: Any) -> Any:
    if schema.get("type") == "number":
        return float(value)
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    return value if values.INT_MIN <= value <= values.INT_MAX else CelError("integer overflow")


def _list(schema: Schema, items: list[Any]) -> list[Any]:
    sub = schema.get("items")
    if not isinstance(sub, dict):
        return items
    is_root = bool(sub.get("x-kubernetes-embedded-resource"))
    found = [value_of(sub, item, is_root=is_root) for item in items]
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return SetList(found)
        case "map" if all(isinstance(item, dict) for item in found):
            keys = schema.get("x-kubernetes-list-map-keys") or ()
            return MapList(found, tuple(escaped(key) or key for key in keys))
    return found


def _object(schema: Schema, value: dict[str, Any], *, is_root: bool) -> dict[str, Any]:
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        is_resource = bool(extra.get("x-kubernetes-embedded-resource"))
        return {key: value_of(extra, item, is_root=is_resource) for key, item in value.items()}
    properties = properties_of(schema, is_root=is_root)
    found: dict[str, Any] = {}
    for name, item in value.items():
        sub = properties.get(name)
        if item is None:
            found[f"?{name}"] = _NULL
        elif sub is None:
            # Out of reach under a name that is no identifier, but part of what is compared.
            found[f"?{name}"] = item
        else:
            is_resource = bool(sub.get("x-kubernetes-embedded-resource"))
            found[escaped(name) or f"?{name}"] = value_of(sub, item, is_root=is_resource)
    return found


def _or_error(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except CelError as error:
        return error


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise CelError(f'"{text}" is not valid base64') from error


def _duration(text: str) -> values.Duration:
    nanoseconds = None if formats.is_go_duration(text) else formats.human_duration(text)
    return values.parse_duration(text) if nanoseconds is None else values.duration(nanoseconds)


_READERS: dict[str, Callable[[str], Any]] = {
    "byte": _bytes,
    "duration": _duration,
    "date": lambda text: values.parse_timestamp(f"{text}T00:00:00Z"),
    "date-time": values.parse_timestamp,
}
