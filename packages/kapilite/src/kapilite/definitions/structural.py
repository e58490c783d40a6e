"""Whether the schema of a CustomResourceDefinition is structural, and can be honoured in full.

A schema is refused, with the place and the reason, when Kubernetes would refuse it and when this
server could not evaluate it (a rule with a function that it does not know): a rule that is
silently ignored is worse than a definition that does not load.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import problems as problem
from kapilite.cel import rules, typed
from kapilite.schemas import regex
from kapilite.schemas import schema as defaults
from kapilite.schemas.structure import type_name
from kapilite.schemas.validation import problems as value_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
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


def problems(schema: Any, path: str) -> Iterator[Problem]:
    """Everything that keeps this schema from being served."""
    place = _Place(path=path, is_root=True)
    found = list(_schema(schema, place))
    yield from found
    if isinstance(schema, dict) and not found:
        yield from _root(schema, path)


class _Place(NamedTuple):
    """Where in the schema something stands, and what that means for it."""

    path: str
    is_root: bool = False
    """The root of a resource, where its identity can be read."""
    spine: dict[str, Any] | None = None
    """Inside `allOf` and its like: the schema that says what type the values have."""
    is_in_all_of: bool = False
    lost_at: str = ""
    """The place from which on an old value cannot be found again."""
    depth: int = 0

    def below(self, name: str, **changes: Any) -> _Place:
        inner = self._replace(path=f"{self.path}.{name}", depth=self.depth + 1, is_root=False)
        return inner._replace(**changes)


def _schema(schema: Any, place: _Place) -> Iterator[Problem]:
    path = place.path
    if not isinstance(schema, dict):
        yield problem.wrong_type(path, type_name(schema), "object")
        return
    if place.depth > DEPTH_LIMIT:
        yield problem.forbidden(path, f"nested more than {DEPTH_LIMIT} levels deep")
        return
    wrong = list(_keywords(schema, path))
    yield from wrong
    if wrong:
        return  # the rest reads these keywords
    if place.spine is None:
        yield from _structure(schema, path)
        yield from _lists(schema, path)
    else:
        yield from _logic_only(schema, place)
    below = list(_nested(schema, place))
    yield from below
    if not below:
        yield from _rules(schema, place)
        if place.spine is None:
            yield from _default(schema, path)


def _root(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    if schema.get("type") != "object":
        yield problem.invalid(f"{path}.type", schema.get("type", ""), "must be object at the root")
    meta = (schema.get("properties") or {}).get("metadata")
    if meta:
        allowed = {"type", "description", "properties"}
        names = set(meta.get("properties") or ()) - {"name", "generateName"}
        if names or meta.keys() - allowed:
            why = (
                "must not specify anything other than name and generateName, but metadata is "
                "implicitly specified"
            )
            yield problem.forbidden(f"{path}.properties[metadata]", why)


def _keywords(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    for name, value in schema.items():
        field = f"{path}.{name}"
        if name in _FORBIDDEN:
            yield problem.forbidden(field, f"{name} is not supported")
        elif name not in _KNOWN:
            yield problem.invalid(field, name, "unknown field")
        elif name in _SHAPES and (_SHAPES[name] is not _STRING or not isinstance(value, str)):
            for found in value_problems(_SHAPES[name], value):
                yield found._replace(field=field)
    if isinstance(schema.get("pattern"), str):
        try:
            regex.compiled(schema["pattern"])
        except ValueError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield problem.invalid(f"{path}.pattern", schema["pattern"], why)


def _structure(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    kind = schema.get("type")
    preserves = schema.get("x-kubernetes-preserve-unknown-fields")
    if not kind:
        if not preserves and not schema.get("x-kubernetes-int-or-string"):
            yield problem.required(f"{path}.type", "must not be empty for specified object fields")
    elif kind not in _TYPES:
        yield problem.not_supported(f"{path}.type", kind, _TYPES)
    if schema.get("properties") and schema.get("additionalProperties"):
        why = "additionalProperties and properties are mutual exclusive"
        yield problem.forbidden(f"{path}.additionalProperties", why)
    if kind == "array" and "items" not in schema:
        yield problem.required(f"{path}.items", "must be specified")
    if schema.get("uniqueItems"):
        yield problem.forbidden(
            f"{path}.uniqueItems",
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    if preserves is False:
        field = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield problem.invalid(field, preserves, "must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _embedded(schema, path)


def _embedded(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    why = "if x-kubernetes-embedded-resource is true"
    if schema.get("type") != "object":
        yield problem.invalid(f"{path}.type", schema.get("type", ""), f"must be object {why}")
    if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        why += " without x-kubernetes-preserve-unknown-fields"
        yield problem.required(f"{path}.properties", f"must not be empty {why}")


_FORBIDDEN_IN_LOGIC = {
    "type": "must be empty to be structural",
    "additionalProperties": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be false to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
}


def _logic_only(schema: dict[str, Any], place: _Place) -> Iterator[Problem]:
    """Inside `allOf` and its like a schema may restrict values, but not say what they are."""
    spine = place.spine or {}
    for name, why in _FORBIDDEN_IN_LOGIC.items():
        is_choice = name == "type" and spine.get("x-kubernetes-int-or-string")
        if schema.get(name) and not is_choice:
            yield problem.forbidden(f"{place.path}.{name}", why)
    if schema.get("x-kubernetes-validations") and not place.is_in_all_of:
        field = f"{place.path}.x-kubernetes-validations"
        yield problem.forbidden(field, "must be empty to be structural")


def _default(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    value = schema.get("default")
    if value is None:
        return
    pruned = copy.deepcopy(value)
    if defaults.fit(schema, pruned, is_root=False):
        yield problem.invalid(f"{path}.default", value, "must not have unknown fields")
    for found in value_problems(schema, pruned):
        yield found._replace(field=f"{path}.default{found.field and '.' + found.field}")


def _rules(schema: dict[str, Any], place: _Place) -> Iterator[Problem]:
    raw = schema.get("x-kubernetes-validations")
    if not raw or (place.spine is not None and not place.is_in_all_of):
        return
    spine = place.spine or schema
    kind = typed.type_of(spine, is_root=place.is_root)
    for index, rule in enumerate(raw):
        field = f"{place.path}.x-kubernetes-validations[{index}]"
        yield from rules.mistakes(spine, rule, field, kind, lost_at=place.lost_at)


def _lists(schema: dict[str, Any], path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-map-type") and schema.get("type") != "object":
        why = "must be object if x-kubernetes-map-type is specified"
        yield problem.invalid(f"{path}.type", schema.get("type", ""), why)
    kind = schema.get("x-kubernetes-list-type")
    field = f"{path}.x-kubernetes-list-type"
    if schema.get("x-kubernetes-list-map-keys") and kind != "map":
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        if kind is None:
            yield problem.required(field, why)
        else:
            yield problem.invalid(field, kind, why)
    if kind is None:
        return
    if kind not in ("atomic", "set", "map"):
        yield problem.not_supported(field, kind, ("atomic", "map", "set"))
    if schema.get("type") != "array":
        why = "must be array if x-kubernetes-list-type is specified"
        yield problem.invalid(f"{path}.type", schema.get("type", ""), why)
        return
    items = schema.get("items")
    if isinstance(items, dict) and kind in ("set", "map") and items.get("nullable"):
        why = f"cannot be nullable when x-kubernetes-list-type is {kind}"
        yield problem.forbidden(f"{path}.items.nullable", why)
    if kind == "set" and isinstance(items, dict):
        yield from _set_items(items, f"{path}.items")
    elif kind == "map":
        yield from _map_keys(schema, items if isinstance(items, dict) else {}, path)


def _set_items(items: dict[str, Any], path: str) -> Iterator[Problem]:
    why = "must be atomic as item of a list with x-kubernetes-list-type=set"
    for kind, name in (("object", "x-kubernetes-map-type"), ("array", "x-kubernetes-list-type")):
        if items.get("type") == kind and items.get(name) != "atomic":
            # A list is atomic unless it says otherwise.
            if kind == "array" and items.get(name) is None:
                continue
            yield problem.invalid(f"{path}.{name}", items.get(name), why)


def _map_keys(schema: dict[str, Any], items: dict[str, Any], path: str) -> Iterator[Problem]:
    field = f"{path}.x-kubernetes-list-map-keys"
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield problem.required(field, why)
    known = items.get("properties") or {}
    if not isinstance(known, dict):
        return
    for key in keys:
        sub = known.get(key)
        place = f"{path}.items.properties[{key}]"
        if not isinstance(sub, dict):
            yield problem.invalid(field, list(keys), "entries must all be names of item properties")
            continue
        if sub.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield problem.invalid(f"{place}.type", sub["type"], why)
        if sub.get("default") is None and key not in (items.get("required") or ()):
            why = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be "
                "a required property"
            )
            yield problem.required(f"{place}.default", why)


def _nested(schema: dict[str, Any], place: _Place) -> Iterator[Problem]:
    spine = place.spine
    lost = place.lost_at
    if not lost and schema.get("x-kubernetes-map-type") == "atomic":
        lost = place.path
    for name, sub in (schema.get("properties") or {}).items():
        inner = _inner(spine, "properties", name)
        where = place.below(f"properties[{name}]", spine=inner, lost_at=lost)
        yield from _schema(sub, _resource(sub, where))
    extra = schema.get("additionalProperties")
    if isinstance(extra, dict):
        inner = _inner(spine, "additionalProperties")
        where = place.below("additionalProperties", spine=inner, lost_at=lost)
        yield from _schema(extra, _resource(extra, where))
    if "items" in schema:
        kind = (spine or schema).get("x-kubernetes-list-type")
        gone = lost or ("" if kind == "map" else f"{place.path}.items")
        where = place.below("items", spine=_inner(spine, "items"), lost_at=gone)
        yield from _schema(schema["items"], _resource(schema["items"], where))
    for name in _LOGIC:
        for index, sub in enumerate(schema.get(name) or ()):
            inside = name == "allOf" and (spine is None or place.is_in_all_of)
            where = place.below(f"{name}[{index}]", spine=spine or schema, is_in_all_of=inside)
            yield from _schema(sub, where._replace(is_root=place.is_root))
    if "not" in schema:
        where = place.below("not", spine=spine or schema, is_in_all_of=False)
        yield from _schema(schema["not"], where)


def _inner(spine: dict[str, Any] | None, *path: str) -> dict[str, Any] | None:
    """The same member of the schema that has the types; None outside of logic."""
    if spine is None:
        return None
    found: Any = spine
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _resource(schema: Any, place: _Place) -> _Place:
    is_root = isinstance(schema, dict) and bool(schema.get("x-kubernetes-embedded-resource"))
    return place._replace(is_root=is_root)


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
    "x-kubernetes-map-type": {"type": "string", "enum": ["atomic", "granular"]},
    "x-kubernetes-preserve-unknown-fields": _BOOLEAN,
    "x-kubernetes-embedded-resource": _BOOLEAN,
    "x-kubernetes-int-or-string": _BOOLEAN,
    "x-kubernetes-validations": _OBJECTS,
}
