"""What makes a schema structural, as Kubernetes checks it.

Outside of `allOf`, `anyOf`, `oneOf` and `not` every value has a type; inside of them a schema
restricts values, and says nothing of what they are. Metadata is the server's own business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.schemas import regex
from kapilite.schemas.schema import EMBEDDED, PRESERVES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

Schema = dict[str, Any]

LOGIC = ("allOf", "anyOf", "oneOf")
INT_OR_STRING = "x-kubernetes-int-or-string"

_CHOICE = [{"type": "integer"}, {"type": "string"}]
_ROOT, _ITEM, _FIELD = "at the root", "for specified array items", "for specified object fields"
_UNREAD = {
    "id": "id",
    "$schema": "schema",
    "$ref": "$ref",
    "patternProperties": "patternProperties",
    "dependencies": "dependencies",
    "additionalItems": "additionalItems",
    "definitions": "definitions",
}


def below(schema: Schema) -> Iterator[Schema]:
    """The schemas right below one, in logic and out of it."""
    yield from (schema.get("properties") or {}).values()
    for name in ("additionalProperties", "items", "not"):
        if isinstance(schema.get(name), dict):
            yield schema[name]
    for name in LOGIC:
        yield from schema.get(name) or ()


def unread(schema: Schema) -> str:
    """A keyword for which no structural schema can be made of this one; mostly empty."""
    for name, called in _UNREAD.items():
        if schema.get(name) or (name == "additionalItems" and name in schema):
            return called
    if isinstance(schema.get("items"), list):
        return "items"
    if schema.get(PRESERVES) is False:
        return PRESERVES
    return next(filter(None, map(unread, below(schema))), "")


def problems(schema: Schema, path: str) -> list[Problem]:
    """All places where the schema is not structural, in Kubernetes' order."""
    found = [*_invariants(schema, _ROOT, path), *_complete(schema, schema, path, path)]
    return sorted(found, key=lambda one: f"{one.field}: {one.message}")


def _invariants(schema: Schema, level: str, path: str) -> Iterator[Problem]:
    items, extra = schema.get("items"), schema.get("additionalProperties")
    if isinstance(items, dict):
        yield from _invariants(items, _ITEM, f"{path}.items")
    elif schema.get("type") == "array":
        yield problem.required(f"{path}.items", "must be specified")
    for name, sub in (schema.get("properties") or {}).items():
        yield from _invariants(sub, _FIELD, f"{path}.properties[{name}]")
    if extra is not None and level == _ROOT:
        yield problem.forbidden(f"{path}.additionalProperties", "must not be used at the root")
    if isinstance(extra, dict):
        yield from _invariants(extra, _FIELD, f"{path}.additionalProperties")
    if schema.get(INT_OR_STRING):
        for name in (PRESERVES, EMBEDDED):
            if schema.get(name):
                why = f"must be false if {INT_OR_STRING} is true"
                yield problem.invalid(f"{path}.{name}", True, why)
    first = (schema.get("allOf") or [{}])[0]
    yield from _values(
        schema,
        path,
        is_choice=schema.get("anyOf") == _CHOICE,
        is_first_choice=first.get("anyOf") == _CHOICE,
    )
    yield from _typed(schema, level, path)
    yield from _identity(schema, level, path)


def _typed(schema: Schema, level: str, path: str) -> Iterator[Problem]:
    kind, field = schema.get("type", ""), f"{path}.type"
    if schema.get(EMBEDDED) and kind != "object":
        why = f"must be object if {EMBEDDED} is true"
        yield problem.invalid(field, kind, why) if kind else problem.required(field, why)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVES):
        yield problem.required(field, f"must not be empty {level}")
    if schema.get(EMBEDDED):
        if "additionalProperties" in schema:
            why = f"must not be used if {EMBEDDED} is set"
            yield problem.forbidden(f"{path}.additionalProperties", why)
        if not schema.get(PRESERVES) and not schema.get("properties"):
            why = f"must not be empty if {EMBEDDED} is true without {PRESERVES}"
            yield problem.required(f"{path}.properties", why)
    if level == _ROOT and kind and kind != "object":
        yield problem.invalid(field, kind, "must be object at the root")


def _identity(schema: Schema, level: str, path: str) -> Iterator[Problem]:
    """What a resource may say of its own kind, version and metadata."""
    properties = schema.get("properties") or {}
    is_resource = level == _ROOT or bool(schema.get(EMBEDDED))
    wanted = {"kind": "string", "apiVersion": "string", "metadata": "object"}
    for name, kind in wanted.items():
        sub = properties.get(name)
        if is_resource and sub is not None and sub.get("type") != kind:
            field = f"{path}.properties[{name}].type"
            yield problem.invalid(field, sub.get("type", ""), f"must be {kind}")
    meta = properties.get("metadata")
    if level == _ROOT and meta is not None and not _says_nothing(meta):
        why = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield problem.forbidden(f"{path}.properties[metadata]", why)


def _says_nothing(meta: Schema) -> bool:
    names = set(meta.get("properties") or ())
    return names <= {"name", "generateName"} and not meta.keys() - {"type", "default", "properties"}


def _values(
    schema: Schema, path: str, *, is_choice: bool = False, is_first_choice: bool = False
) -> Iterator[Problem]:
    """The keywords that restrict a value; a choice is the form that `int-or-string` may have."""
    if not is_choice:
        for index, sub in enumerate(schema.get("anyOf") or ()):
            yield from _nested(sub, f"{path}.anyOf[{index}]")
    for index, sub in enumerate(schema.get("allOf") or ()):
        is_sub_choice = is_first_choice and index == 0
        yield from _nested(sub, f"{path}.allOf[{index}]", is_choice=is_sub_choice)
    for index, sub in enumerate(schema.get("oneOf") or ()):
        yield from _nested(sub, f"{path}.oneOf[{index}]")
    if "not" in schema:
        yield from _nested(schema["not"], f"{path}.not")
    if schema.get("pattern"):
        try:
            regex.compiled(schema["pattern"])
        except ValueError as error:
            why = f"must be a valid regular expression, but isn't: {error}"
            yield problem.invalid(f"{path}.pattern", schema["pattern"], why)


_NOT_IN_LOGIC = {
    "type": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "title": "must be empty to be structural",
    "description": "must be empty to be structural",
    "nullable": "must be false to be structural",
    PRESERVES: "must be false to be structural",
    EMBEDDED: "must be false to be structural",
    INT_OR_STRING: "must be false to be structural",
    "x-kubernetes-list-map-keys": "must be empty to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
    "x-kubernetes-map-type": "must be undefined to be structural",
    "x-kubernetes-validations": "must be empty to be structural",
}


def _nested(schema: Schema, path: str, *, is_choice: bool = False) -> Iterator[Problem]:
    """A schema within logic."""
    yield from _values(schema, path, is_choice=is_choice)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")
    properties = schema.get("properties") or {}
    for name, sub in properties.items():
        yield from _nested(sub, f"{path}.properties[{name}]")
    if schema.get("additionalProperties", False) is not False:
        field = f"{path}.additionalProperties"
        yield problem.forbidden(field, "must be undefined to be structural")
    for name, why in _NOT_IN_LOGIC.items():
        if name in schema:
            yield problem.forbidden(f"{path}.{name}", why)
    if "metadata" in properties:
        why = "must not be specified in a nested context"
        yield problem.forbidden(f"{path}.properties[metadata]", why)


def _complete(schema: Schema, spine: Schema, where: str, path: str) -> Iterator[Problem]:
    """What the logic at the root restricts must be named outside of it; `where` is there."""
    logic = [(f"{path}.not", schema["not"])] if "not" in schema else []
    for name in LOGIC:
        listed = enumerate(schema.get(name) or ())
        logic += [(f"{path}.{name}[{index}]", sub) for index, sub in listed]
    for at, sub in logic:
        yield from _restricted(sub, spine, where, at)


def _restricted(schema: Schema, spine: Schema, where: str, path: str) -> Iterator[Problem]:
    yield from _complete(schema, spine, where, path)
    known = spine.get("properties") or {}
    members = [
        (sub, known.get(name), f"properties[{name}]")
        for name, sub in (schema.get("properties") or {}).items()
    ]
    if isinstance(schema.get("items"), dict):
        members.append((schema["items"], spine.get("items"), "items"))
    for sub, named, name in members:
        if isinstance(named, dict):
            yield from _restricted(sub, named, f"{where}.{name}", f"{path}.{name}")
        else:
            why = f"because it is defined in {path}.{name}"
            yield problem.required(f"{where}.{name}", why)
