"""Whether the schema of a CustomResourceDefinition is structural, and can be honoured in full.

A schema is refused, with the place and the reason, when Kubernetes would refuse it and when this
server could not evaluate it (a validation rule in CEL other than the transition rule
`self == oldSelf`): a rule that is silently ignored is worse than a definition that does not load.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from laneway.apiserver import problems as problem
from laneway.apiserver.validation import ABSENT, compiled, is_immutable_rule
from laneway.apiserver.validation import problems as value_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.apiserver.problems import Problem

_TYPES = ("object", "array", "string", "integer", "number", "boolean")
_FORBIDDEN = (
    "$ref",
    "$schema",
    "id",
    "definitions",
    "dependencies",
    "patternProperties",
    "additionalItems",
    "deprecated",
    "readOnly",
    "writeOnly",
    "xml",
    "discriminator",
)
_KNOWN = frozenset(
    {
        "type",
        "format",
        "title",
        "description",
        "default",
        "nullable",
        "enum",
        "pattern",
        "maximum",
        "exclusiveMaximum",
        "minimum",
        "exclusiveMinimum",
        "multipleOf",
        "maxLength",
        "minLength",
        "maxItems",
        "minItems",
        "uniqueItems",
        "maxProperties",
        "minProperties",
        "required",
        "properties",
        "additionalProperties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "example",
        "externalDocs",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    }
)
_LOGIC = ("allOf", "anyOf", "oneOf")
DEPTH_LIMIT = 64


def problems(schema: Any, path: str, *, correlated: bool = True) -> Iterator[Problem]:
    """Everything that keeps this schema from being served."""
    yield from _schema(schema, path, correlated=correlated, logic=False, depth=0)


def _schema(
    schema: Any, path: str, *, correlated: bool, logic: bool, depth: int
) -> Iterator[Problem]:
    if not isinstance(schema, dict):
        yield problem.wrong_type(path, "string", "object")
        return
    if depth > DEPTH_LIMIT:
        yield problem.forbidden(path, f"nested more than {DEPTH_LIMIT} levels deep")
        return
    wrong = list(_keywords(schema, path))
    yield from wrong
    if wrong:
        return  # the rest reads these keywords
    if not logic:
        yield from _structure(schema, path)
    yield from _rules(schema, path, correlated=correlated and not logic)
    yield from _lists(schema, path)
    yield from _nested(schema, path, correlated=correlated, logic=logic, depth=depth + 1)


def _keywords(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    for name, value in schema.items():
        field = f"{path}.{name}"
        if name in _FORBIDDEN:
            yield problem.forbidden(field, f"{name} is not supported")
        elif name not in _KNOWN:
            yield problem.invalid(field, name, "unknown field")
        elif name in _SHAPES:
            for found in value_problems(_SHAPES[name], value):
                yield found._replace(field=field)
    if "pattern" in schema:
        try:
            compiled(schema["pattern"])
        except (re.error, TypeError) as error:
            yield problem.invalid(
                f"{path}.pattern", schema["pattern"], f"must be a valid regular expression: {error}"
            )


def _structure(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if kind:
            yield problem.forbidden(
                f"{path}.type", "must be empty if x-kubernetes-int-or-string is true"
            )
    elif not kind:
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield problem.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind not in _TYPES:
        yield problem.not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("properties") and schema.get("additionalProperties"):
        yield problem.forbidden(f"{path}.additionalProperties", "mutual exclusive with properties")
    if kind == "array" and "items" not in schema:
        yield problem.required(f"{path}.items", "must be specified")
    if schema.get("uniqueItems"):
        yield problem.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        yield problem.invalid(
            f"{path}.type", kind, "must be object if x-kubernetes-embedded-resource is true"
        )
    if schema.get("default") is not None:
        for found in value_problems(schema, schema["default"], ABSENT):
            yield found._replace(field=f"{path}.default{found.field and '.' + found.field}")


def _rules(schema: dict[str, Any], path: str, *, correlated: bool) -> Iterator[Problem]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations") or ()):
        field = f"{path}.x-kubernetes-validations[{index}]"
        text = rule.get("rule")
        if not is_immutable_rule(text):
            yield problem.invalid(
                f"{field}.rule", text, "only the rule `self == oldSelf` can be evaluated"
            )
        elif not correlated:
            yield problem.invalid(
                f"{field}.rule",
                text,
                "oldSelf cannot be used on the uncorrelatable portion of the schema",
            )
        for name in rule.keys() - {"rule", "message", "reason"}:
            yield problem.forbidden(f"{field}.{name}", "is not supported")


def _lists(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    kind = schema.get("x-kubernetes-list-type")
    if kind is None:
        return
    field = f"{path}.x-kubernetes-list-type"
    if kind not in ("atomic", "set", "map"):
        yield problem.not_supported(field, kind, ("atomic", "map", "set"))
    if schema.get("type") != "array":
        yield problem.invalid(
            f"{path}.type",
            schema.get("type", ""),
            "must be array if x-kubernetes-list-type is specified",
        )
    if kind == "map":
        keys = schema.get("x-kubernetes-list-map-keys")
        if not keys:
            yield problem.required(
                f"{path}.x-kubernetes-list-map-keys",
                "must not be empty if x-kubernetes-list-type is map",
            )
        known = (schema.get("items") or {}).get("properties") or {}
        for key in keys or ():
            if key not in known:
                yield problem.invalid(
                    f"{path}.x-kubernetes-list-map-keys",
                    key,
                    "entries must all be names of item properties",
                )


def _nested(
    schema: dict[str, Any], path: str, *, correlated: bool, logic: bool, depth: int
) -> Iterator[Problem]:
    for name, sub in (schema.get("properties") or {}).items():
        where = f"{path}.properties[{name}]"
        yield from _schema(sub, where, correlated=correlated, logic=logic, depth=depth)
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        where = f"{path}.additionalProperties"
        yield from _schema(extra, where, correlated=correlated, logic=logic, depth=depth)
    if "items" in schema:
        found_again = correlated and schema.get("x-kubernetes-list-type") == "map"
        where = f"{path}.items"
        yield from _schema(schema["items"], where, correlated=found_again, logic=logic, depth=depth)
    for name in _LOGIC:
        for index, sub in enumerate(schema.get(name) or ()):
            where = f"{path}.{name}[{index}]"
            yield from _schema(sub, where, correlated=False, logic=True, depth=depth)
    if "not" in schema:
        yield from _schema(schema["not"], f"{path}.not", correlated=False, logic=True, depth=depth)


_BOOLEAN = {"type": "boolean"}
_INTEGER = {"type": "integer"}
_NUMBER = {"type": "number"}
_STRING = {"type": "string"}
_LIST = {"type": "array"}
_OBJECT = {"type": "object"}
_OBJECTS = {"type": "array", "items": _OBJECT}
_SHAPES: dict[str, dict[str, Any]] = {
    "type": _STRING,
    "format": _STRING,
    "description": _STRING,
    "nullable": _BOOLEAN,
    "enum": _LIST,
    "pattern": _STRING,
    "maximum": _NUMBER,
    "minimum": _NUMBER,
    "exclusiveMaximum": _BOOLEAN,
    "exclusiveMinimum": _BOOLEAN,
    "multipleOf": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
    "maxLength": _INTEGER,
    "minLength": _INTEGER,
    "maxItems": _INTEGER,
    "minItems": _INTEGER,
    "maxProperties": _INTEGER,
    "minProperties": _INTEGER,
    "required": {"type": "array", "items": _STRING},
    "properties": {"type": "object", "additionalProperties": _OBJECT},
    "items": _OBJECT,
    "allOf": _OBJECTS,
    "anyOf": _OBJECTS,
    "oneOf": _OBJECTS,
    "not": _OBJECT,
    "x-kubernetes-list-type": _STRING,
    "x-kubernetes-list-map-keys": {"type": "array", "items": _STRING},
    "x-kubernetes-validations": _OBJECTS,
}
