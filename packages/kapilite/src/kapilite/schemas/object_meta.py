"""ObjectMeta: as a schema, the same for every kind, and what it must be within other objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

_STRINGS = {"type": "object", "additionalProperties": {"type": "string"}, "nullable": True}
_TEXT = {"type": "string", "nullable": True}
_TIME = {"type": "string", "format": "date-time", "nullable": True}
_OWNER = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": {"type": "string", "minLength": 1},
        "kind": {"type": "string", "minLength": 1},
        "name": {"type": "string", "minLength": 1},
        "uid": {"type": "string", "minLength": 1},
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": {"type": "integer", "nullable": True},
        "creationTimestamp": _TIME,
        "deletionTimestamp": _TIME,
        "deletionGracePeriodSeconds": {"type": "integer", "nullable": True},
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "ownerReferences": {"type": "array", "items": _OWNER, "nullable": True},
        "finalizers": {"type": "array", "items": {"type": "string"}, "nullable": True},
        "managedFields": {"type": "array", "nullable": True},
    },
}


ANNOTATIONS_LIMIT = 256 * 1024
_EXCLUSIVE = ("orphan", "foregroundDeletion")
_MANAGER_LIMIT = 128
_OPERATIONS = ("Apply", "Update")


def problems(meta: dict[str, Any], path: str) -> Iterator[Problem]:
    """What is wrong with the metadata, which was decoded, of a resource within an object."""
    for field in ("generateName", "name"):
        if text := meta.get(field):
            yield from problem.unfit(f"{path}.{field}", text, names.segment(text))
    if space := meta.get("namespace"):
        yield from problem.unfit(f"{path}.namespace", space, names.label(space))
    if meta.get("generation", 0) < 0:
        why = "must be greater than or equal to 0"
        yield problem.invalid(f"{path}.generation", meta["generation"], why)
    for key, text in (meta.get("labels") or {}).items():
        yield from problem.unfit(f"{path}.labels", key, names.qualified_name(key))
        yield from problem.unfit(f"{path}.labels", text, names.label_value(text))
    annotations = meta.get("annotations") or {}
    for key in annotations:
        wrong = names.qualified_name(key.lower())
        yield from problem.unfit(f"{path}.annotations", key, wrong)
    size = sum(len(key.encode()) + len(text.encode()) for key, text in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        yield problem.too_long(f"{path}.annotations", ANNOTATIONS_LIMIT)
    yield from _owners(meta.get("ownerReferences") or [], f"{path}.ownerReferences")
    finalizers, field = meta.get("finalizers") or [], f"{path}.finalizers"
    for name in finalizers:
        yield from problem.unfit(field, name, names.qualified_name(name))
    if all(name in finalizers for name in _EXCLUSIVE):
        why = f"finalizer {_EXCLUSIVE[0]} and {_EXCLUSIVE[1]} cannot be both set"
        yield problem.invalid(field, finalizers, why)
    for index, entry in enumerate(meta.get("managedFields") or ()):
        yield from _managed(entry, f"{path}.managedFields[{index}]")


def _owners(owners: list[dict[str, Any]], path: str) -> Iterator[Problem]:
    for owner in owners:
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                what = "version must not be empty" if name == "apiVersion" else "must not be empty"
                yield problem.invalid(f"{path}.{name}", owner.get(name, ""), what)
        if (owner.get("apiVersion"), owner.get("kind")) == ("v1", "Event"):
            why = "/v1, Kind=Event is disallowed from being an owner"
            yield problem.invalid(path, owner, why)
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        why = "Only one reference can have Controller set to true."
        yield problem.invalid(path, owners, why)


def _managed(entry: dict[str, Any], path: str) -> Iterator[Problem]:
    operation, kind = entry.get("operation", ""), entry.get("fieldsType", "")
    if operation not in _OPERATIONS:
        yield problem.invalid(f"{path}.operation", operation, "must be `Apply` or `Update`")
    if kind not in ("", "FieldsV1"):
        yield problem.invalid(f"{path}.fieldsType", kind, "must be `FieldsV1`")
    if len(entry.get("manager", "").encode()) > _MANAGER_LIMIT:
        yield problem.too_long(f"{path}.manager", _MANAGER_LIMIT)
