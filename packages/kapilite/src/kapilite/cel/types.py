"""The types of expressions, and which values fit which.

A type variable (one capital letter) stands for one type throughout a signature. `dyn` fits
everything and everything fits it; what is dynamic is checked when it is evaluated.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import msgspec

from kapilite.cel.values import Duration, Optional, Timestamp, TypeValue, UInt


class Type(msgspec.Struct, frozen=True):
    """A type by name and parameters; an object type is equal only to itself."""

    name: str
    params: tuple[Type, ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(map(str, self.params))
        return f"{self.name}({inner})" if inner else self.name


DYN, BOOL, STRING = Type("dyn"), Type("bool"), Type("string")
INT, UINT, DOUBLE, BYTES = Type("int"), Type("uint"), Type("double"), Type("bytes")
NULL, TYPE = Type("null_type"), Type("type")
TIMESTAMP, DURATION = Type("google.protobuf.Timestamp"), Type("google.protobuf.Duration")
NUMBERS = frozenset({INT, UINT, DOUBLE})


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("optional_type", (value,))


class ObjectType(Type, frozen=True):
    """An object with fields of known types."""

    fields: dict[str, Type] = msgspec.field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def object_of(fields: dict[str, Type]) -> ObjectType:
    return ObjectType("object", fields=fields)


_ABBREVIATIONS = {
    "timestamp": TIMESTAMP,
    "duration": DURATION,
    "null": NULL,
    "url": Type("kubernetes.URL"),
    "ip": Type("net.IP"),
    "cidr": Type("net.CIDR"),
    "quantity": Type("kubernetes.Quantity"),
    "format": Type("kubernetes.NamedFormat"),
}
_WORD = re.compile(r"\s*([A-Za-z_]+)\s*(\()?")


@functools.cache
def parse_type(text: str) -> Type:
    """A type as signatures write it: `list(T)`, `map(string, dyn)`, `optional(T)`."""
    found, end = _parse_type(text, 0)
    assert end == len(text), text  # noqa: S101 - signatures are ours
    return found


def _parse_type(text: str, at: int) -> tuple[Type, int]:
    match = _WORD.match(text, at)
    assert match is not None, text  # noqa: S101 - signatures are ours
    name, at = match[1], match.end()
    params: list[Type] = []
    if match[2]:
        while True:
            inner, at = _parse_type(text, at)
            params.append(inner)
            at += 1
            if text[at - 1] == ")":
                break
    if name == "optional":
        name = "optional_type"
    return (Type(name, tuple(params)) if params else _ABBREVIATIONS.get(name, Type(name))), at


def is_variable(kind: Type) -> bool:
    return len(kind.name) == 1


def fits(wanted: Type, found: Type, bound: dict[str, Type]) -> bool:
    """Whether a value of type `found` can be passed where `wanted` is; binds type variables."""
    if is_variable(wanted):
        before = bound.get(wanted.name)
        if before is None or (before == DYN and found != DYN):
            bound[wanted.name] = found
            return True
        return fits(before, found, bound)
    if is_variable(found) or DYN in (wanted, found):
        return True
    if found == NULL:
        return wanted == NULL or is_nullable(wanted)
    if wanted == found:
        return True
    return (
        bool(wanted.params)
        and wanted.name == found.name
        and len(wanted.params) == len(found.params)
        and all(fits(a, b, bound) for a, b in zip(wanted.params, found.params, strict=True))
    )


def is_nullable(kind: Type) -> bool:
    """Null is also a value of messages, which objects and these are."""
    return isinstance(kind, ObjectType) or "." in kind.name or kind.name == "optional_type"


def resolved(kind: Type, bound: dict[str, Type]) -> Type:
    """A result type with its variables replaced."""
    if is_variable(kind):
        return bound.get(kind.name, DYN)
    if kind.params:
        return Type(kind.name, tuple(resolved(param, bound) for param in kind.params))
    return kind


def joined(one: Type, two: Type) -> Type | None:
    """The type of a choice between both; None where they do not go together."""
    if fits(one, two, {}):
        return DYN if two == DYN else (two if one == NULL else one)
    return two if fits(two, one, {}) else None


KINDS: dict[type, str] = {
    bool: "bool",
    int: "int",
    UInt: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    dict: "map",
    Timestamp: TIMESTAMP.name,
    Duration: DURATION.name,
    TypeValue: "type",
    Optional: "optional_type",
}


def kind_of(value: Any) -> str:
    """The name of a value's type."""
    return KINDS.get(type(value)) or ("list" if isinstance(value, list) else "dyn")
