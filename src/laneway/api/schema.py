"""Structural OpenAPI schemas from Structs, by the rules of CustomResourceDefinitions.

References are inlined, optional types reduced to their type, and titles and defaults dropped:
the server must store what was written, not what a version of Laneway would have assumed. As in
the contract, strings, lists and maps accept null, which is how Go clients write empty ones;
integers, booleans and structures do not, nor do required fields and the keyed condition list.
"""

from __future__ import annotations

from typing import Any

import msgspec

Schema = dict[str, Any]

INT_OR_STRING = "x-kubernetes-int-or-string"
"""Marks a field that takes a number or a text; it has no type besides."""
_DROPPED = ("title", "default", "required", "properties", "items", "additionalProperties", "anyOf")


def structural_schema(cls: type[msgspec.Struct]) -> Schema:
    """The schema of one Struct, everything it refers to included."""
    (root,), parts = msgspec.json.schema_components([cls], ref_template="{name}")
    return _inline(root, parts)


def _inline(schema: Schema, parts: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        around = {key: value for key, value in schema.items() if key != "$ref"}
        return _inline(parts[schema["$ref"]] | around, parts)
    if schema.get(INT_OR_STRING):
        return {key: value for key, value in schema.items() if key not in _DROPPED}
    if "anyOf" in schema:
        # Only `X | None` occurs in the Structs: absent is what None stands for.
        (only,) = (one for one in schema["anyOf"] if one != {"type": "null"})
        around = {key: value for key, value in schema.items() if key != "anyOf"}
        return _inline(only | around, parts)
    out = {key: value for key, value in schema.items() if key not in _DROPPED}
    if "enum" in out:
        out["type"] = "string"
    if out.get("type") == "integer":
        out["format"] = "int64"
    if required := schema.get("required"):
        out["required"] = required
    if properties := schema.get("properties"):
        out["properties"] = {
            key: _inline(value, parts) if key in (required or ()) else _nullable(value, parts)
            for key, value in properties.items()
        }
    if "items" in schema:
        out["items"] = _nullable(schema["items"], parts)
    if "additionalProperties" in schema:
        out["additionalProperties"] = _nullable(schema["additionalProperties"], parts)
    return out


def _nullable(schema: Schema, parts: dict[str, Schema]) -> Schema:
    out = _inline(schema, parts)
    keyed = out.get("x-kubernetes-list-type") == "map"
    if (out.get("type") in ("string", "array") and not keyed) or "additionalProperties" in out:
        out["nullable"] = True
    return out
