"""The Swagger 2.0 document as protobuf, which is all that Helm, and kubectl before 1.27, request.

The messages are those of gnostic's `openapi.v2`, whose numbers are a contract with every client.
Of them the table below has what a Kubernetes cluster says, less what no client reads (the answers
of operations). Whatever the format has no field for is a vendor extension: a name, and YAML.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
ACCEPTED = frozenset(
    {
        MEDIA_TYPE,
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
        "application/com.github.googleapis.gnostic.OpenAPIv2@68f4ded+protobuf",
    }
)

_VARINT, _FIXED64, _BYTES = 0, 1, 2
_EXTENSION = "x-"

_Field = tuple[int, str]

_MESSAGES: dict[str, dict[str, _Field]] = {
    "Document": {
        "swagger": (1, "string"),
        "info": (2, "Info"),
        "paths": (8, "Paths"),
        "definitions": (9, "Named 1 Schema"),
        _EXTENSION: (16, ""),
    },
    "Info": {"title": (1, "string"), "version": (2, "string"), _EXTENSION: (7, "")},
    "PathItem": {
        "get": (2, "Operation"),
        "put": (3, "Operation"),
        "post": (4, "Operation"),
        "delete": (5, "Operation"),
        "patch": (8, "Operation"),
        "parameters": (9, "[]Parameter"),
        _EXTENSION: (10, ""),
    },
    "Operation": {
        "description": (3, "string"),
        "produces": (6, "[]string"),
        "parameters": (8, "[]Parameter"),
        _EXTENSION: (13, ""),
    },
    "query": {
        "required": (1, "bool"),
        "in": (2, "string"),
        "description": (3, "string"),
        "name": (4, "string"),
        "type": (6, "string"),
    },
    "path": {
        "required": (1, "bool"),
        "in": (2, "string"),
        "description": (3, "string"),
        "name": (4, "string"),
        "type": (5, "string"),
    },
    "body": {
        "description": (1, "string"),
        "name": (2, "string"),
        "in": (3, "string"),
        "required": (4, "bool"),
        "schema": (5, "Schema"),
    },
    "Schema": {
        "$ref": (1, "string"),
        "format": (2, "string"),
        "title": (3, "string"),
        "description": (4, "string"),
        "multipleOf": (6, "double"),
        "maximum": (7, "double"),
        "exclusiveMaximum": (8, "bool"),
        "minimum": (9, "double"),
        "exclusiveMinimum": (10, "bool"),
        "maxLength": (11, "int"),
        "minLength": (12, "int"),
        "pattern": (13, "string"),
        "maxItems": (14, "int"),
        "minItems": (15, "int"),
        "uniqueItems": (16, "bool"),
        "maxProperties": (17, "int"),
        "minProperties": (18, "int"),
        "required": (19, "[]string"),
        "enum": (20, "[]any"),
        "additionalProperties": (21, "AdditionalProperties"),
        "type": (22, "Type"),
        "items": (23, "Items"),
        "allOf": (24, "[]Schema"),
        "properties": (25, "Named 1 Schema"),
        "example": (30, "any"),
        _EXTENSION: (31, ""),
    },
}


def encode(document: Mapping[str, Any]) -> bytes:
    """A Swagger 2.0 document as a message."""
    return _message("Document", document)


def _message(name: str, value: Mapping[str, Any]) -> bytes:
    fields = _MESSAGES[name]
    found = bytearray()
    for key, one in value.items():
        if key in fields and key != _EXTENSION:
            number, kind = fields[key]
            for part in _values(kind, one):
                found += _part(number, part)
        elif key.startswith(_EXTENSION) and _EXTENSION in fields:
            found += _part(fields[_EXTENSION][0], _named(key, _any(one)))
    return bytes(found)


def _values(kind: str, value: Any) -> Iterator[bytes | int | float | str]:
    """What stands on the wire for a value, once or, of a list, for each element."""
    if kind.startswith("[]"):
        for one in value:
            yield from _values(kind[2:], one)
        return
    match kind.split():
        case ["Named", number, message]:
            inner = (_named(name, _message(message, one)) for name, one in value.items())
            yield b"".join(_part(int(number), one) for one in inner)
        case ["Paths"]:
            inner = (_named(path, _message("PathItem", item)) for path, item in value.items())
            yield b"".join(_part(2, one) for one in inner)
        case ["Type"]:
            names = value if isinstance(value, list) else [value]
            yield b"".join(_part(1, name) for name in names)
        case ["Items"]:
            yield _part(1, _message("Schema", value))
        case ["AdditionalProperties"]:
            allowed = isinstance(value, bool)
            yield _part(2, value) if allowed else _part(1, _message("Schema", value))
        case ["Parameter"]:
            yield _part(1, _parameter(value))
        case _:
            scalar = _SCALARS.get(kind)
            yield scalar(value) if scalar else _message(kind, value)


def _parameter(value: Mapping[str, Any]) -> bytes:
    place = value["in"]
    message = _message(place, value)
    if place == "body":
        return _part(1, message)
    return _part(2, _part(3 if place == "query" else 4, message))


def _named(name: str, value: bytes) -> bytes:
    return _part(1, name) + _part(2, value)


def _any(value: Any) -> bytes:
    # JSON is YAML.
    return _part(2, msgspec.json.encode(value))


_SCALARS: dict[str, Callable[[Any], bytes | int | float | str]] = {
    "any": _any,
    "bool": bool,
    "double": float,
    "int": int,
    "string": str,
}


def _part(number: int, value: bytes | float | str) -> bytes:
    match value:
        case bool() | int():
            return _varint(number << 3 | _VARINT) + _varint(int(value) & (1 << 64) - 1)
        case float():
            return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)
        case str():
            value = value.encode()
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
