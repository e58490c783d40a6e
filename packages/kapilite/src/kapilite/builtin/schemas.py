"""Structural schemas of the built-in kinds, made from the table of types.

They have the form of the schemas in a CustomResourceDefinition, list types included, so that the
same code defaults, validates, applies and describes both. Structs that several kinds share are one
dict each: a schema is built once per process and never changed.

Besides the keywords of a CustomResourceDefinition, lists and maps carry `x-kubernetes-patch-*`,
which strategic merge patches go by, and four keywords that only OpenAPI documents are made from:
the struct that a schema describes, the fields it requires, the values it knows and its format.
These are not enforced: a server reads what is missing as empty, decoding looks at the format, and
`problems` says what may not be.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kapilite.builtin import texts, types
from kapilite.builtin.defaults import DEFAULTS

if TYPE_CHECKING:
    from kapilite.builtin.types import Field

Schema = dict[str, Any]

STRUCT = "x-kapilite-struct"
REQUIRED = "x-kapilite-required"
VALUES = "x-kapilite-values"
FORMAT = "x-kapilite-format"

_SCALARS: dict[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bytes": {"type": "string", FORMAT: "byte"},
    "Time": {"type": "string", "format": "date-time", "nullable": True, STRUCT: "Time"},
    "MicroTime": {"type": "string", "format": "date-time", "nullable": True, STRUCT: "MicroTime"},
    "Duration": {"type": "string"},
    "Quantity": {"x-kubernetes-int-or-string": True, STRUCT: "Quantity"},
    "IntOrString": {"x-kubernetes-int-or-string": True, STRUCT: "IntOrString"},
    "FieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
IDENTITY = ("apiVersion", "kind")
_ANYTHING: Schema = {"x-kubernetes-preserve-unknown-fields": True}
_RECURSIVE = frozenset({"apiextensions.v1.JSONSchemaProps"})
"""A structural schema has no references, so what holds itself is left open."""


@cache
def of(name: str) -> Schema:
    """The schema of a struct, such as `core.v1.Pod`."""
    if name in _RECURSIVE:
        schema = {"type": "object", **_ANYTHING}
    else:
        fields = types.flat(name)
        schema = {
            "type": "object",
            "properties": {field.name: _field(name, field) for field in fields.values()},
        }
        if types.struct(name).typed:
            schema["properties"] |= dict.fromkeys(IDENTITY, _SCALARS["string"])
        required = sorted(field.name for field in fields.values() if field.required)
        if required:
            schema[REQUIRED] = required
        if types.struct(name).atomic:
            schema["x-kubernetes-map-type"] = "atomic"
    if text := texts.TYPES.get(name):
        schema["description"] = text
    schema[STRUCT] = name
    return schema


@cache
def of_kind(name: str) -> Schema:
    """The schema of a kind, without what every object has."""
    whole = of(name)
    hidden = (*IDENTITY, "metadata")
    properties = {key: sub for key, sub in whole["properties"].items() if key not in hidden}
    return {**whole, "properties": properties}


def _field(owner: str, field: Field) -> Schema:
    shape = field.shape.removeprefix("*")
    schema = _base(field.base, {} if shape else field.facts)
    while shape:
        if shape.endswith("[]"):
            items, shape = schema, shape[:-2]
            schema = {"type": "array", "items": _with_enum(items, field.facts)}
            schema |= _list_facts(field.facts) if not shape else {}
        else:
            shape = shape.removesuffix("map:")
            schema = {"type": "object", "additionalProperties": schema}
            schema |= {"x-kubernetes-map-type": "atomic"} if field.facts.get("atomic") else {}
    extra: Schema = {}
    if text := texts.FIELDS.get((owner, field.name)):
        extra["description"] = text
    if (value := DEFAULTS.get((owner, field.name))) is not None:
        extra["default"] = value
    if field.facts.get("patch"):
        extra["x-kubernetes-patch-strategy"] = field.facts["patch"]
    if field.facts.get("merge"):
        extra["x-kubernetes-patch-merge-key"] = field.facts["merge"]
    return {**schema, **extra} if extra else schema


def _base(base: str, facts: dict[str, Any]) -> Schema:
    if types.exists(base):
        schema = of(base)
        return {**schema, "x-kubernetes-map-type": "atomic"} if facts.get("atomic") else schema
    return _with_enum(_SCALARS.get(base, _ANYTHING), facts)


def _with_enum(schema: Schema, facts: dict[str, Any]) -> Schema:
    values = [value for value in facts.get("enum") or () if value]
    return {**schema, VALUES: values} if values else schema


def _list_facts(facts: dict[str, Any]) -> Schema:
    found: Schema = {}
    if kind := facts.get("list"):
        found["x-kubernetes-list-type"] = kind
    if keys := facts.get("keys"):
        found["x-kubernetes-list-map-keys"] = keys
    return found
