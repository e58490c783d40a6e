"""The types of expressions, and which values have which.

A type variable (one capital letter) stands for one type throughout a signature. What is `dyn` is
checked when it is evaluated.
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


def list_of(item: Type) -> Type:
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", (key, value))


def type_of_type(kind: Type) -> Type:
    return Type("type", (kind,))


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
    "semver": Type("kubernetes.Semver"),
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
    """One letter in signatures, a number in expressions."""
    return len(kind.name) == 1 or kind.name.startswith("_")


TYPE_NAMES: dict[str, Type] = {
    "bool": BOOL,
    "bytes": BYTES,
    "double": DOUBLE,
    "int": INT,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "null_type": NULL,
    "string": STRING,
    "type": TYPE,
    "uint": UINT,
    "optional_type": optional_of(DYN),
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "net.IP": _ABBREVIATIONS["ip"],
    "net.CIDR": _ABBREVIATIONS["cidr"],
}
"""The types that an expression can name."""

_SHOWN = {TIMESTAMP: "timestamp", DURATION: "duration", NULL: "null"}


def shown(kind: Type) -> str:
    """A type as errors write it."""
    inner = ", ".join(map(shown, kind.params))
    return f"{kind.name}({inner})" if inner else _SHOWN.get(kind, kind.name)


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
