"""What a structural schema does to an object before it is checked: prune and default.

Fields that the schema does not name are removed and reported, fields that have a default and are
missing get it, and null where the schema does not allow it counts as missing, as Kubernetes has
it. Objects are changed in place. Strictness is decided by the caller: the list of
unknown fields becomes an error, warnings or nothing (`fieldValidation`).
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterator

Schema = dict[str, Any]

DEFAULTS_LIMIT = 2 * 1024 * 1024
"""Bytes of JSON that defaults may add to one object."""
_LOOKED_UP = 8
"""Properties that may be looked for in the time that a byte takes."""

_CONTAINERS = (dict, list)
"""What has members; most values have none, and so nothing below them to look at."""

_NOTHING = frozenset[str]()
IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
"""At the root of every object, and of an embedded resource, whatever its schema names."""

METADATA = frozenset(
    {
        "annotations",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "finalizers",
        "generateName",
        "generation",
        "labels",
        "managedFields",
        "name",
        "namespace",
        "ownerReferences",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""What the metadata of an embedded resource may hold."""


def fit(schema: Schema, value: Any, *, is_root: bool = True) -> list[str]:
    """Fill in defaults and remove what the schema does not know; the paths of what was removed.

    Null is dropped where it is not allowed. Raises a 413 where defaults are a lot.
    """
    fitting = _Fitting()
    fitting.walk(schema, value, "", IDENTITY if is_root else _NOTHING)
    return fitting.unknown


def default(schema: Schema, value: Any) -> None:
    """Fill in defaults only: for what knows no fields but those of its schema."""
    _Fitting().walk(schema, value, "", None)


class _Room:
    """What defaults may still add to one object: a small list can have a large one in each item."""

    def __init__(self) -> None:
        self._left = DEFAULTS_LIMIT

    def copy(self, value: Any) -> Any:
        self.take(len(msgspec.json.encode(value)))
        return copy.deepcopy(value)

    def take(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            text = "Request entity too large: with its defaults, the object would be too large"
            raise ApiError(413, "RequestEntityTooLarge", text)


class _Fitting:
    """One object that is made to fit its schema, in one walk."""

    def __init__(self) -> None:
        self.unknown: list[str] = []
        self._room = _Room()

    def walk(self, schema: Schema, value: Any, path: str, keep: frozenset[str] | None) -> None:
        """`keep` are the fields that may be there without the schema; None: all may."""
        if isinstance(value, dict):
            self._fill(schema, value)
            if keep is not None and not _takes_anything(schema):
                self._prune(schema, value, path, keep)
        elif isinstance(value, list):
            sub = schema.get("items") or {}
            if sub.get("default") is not None and not sub.get("nullable"):
                value[:] = [self._room.copy(sub["default"]) if v is None else v for v in value]
        else:
            return
        at = len(self.unknown)
        for key, member, sub in list(children(schema, value)):
            child = member
            if child is None and isinstance(value, dict) and not sub.get("nullable"):
                if sub.get("default") is None:
                    del value[key]
                    continue
                child = value[key] = self._room.copy(sub["default"])
            if isinstance(child, _CONTAINERS):
                self.walk(sub, child, joined(path, key), _kept(sub, key, keep))
        if path and keep and isinstance(value, dict) and isinstance(value.get("metadata"), dict):
            self.unknown[at:at] = _prune_metadata(value["metadata"], joined(path, "metadata"))

    def _fill(self, schema: Schema, value: dict[str, Any]) -> None:
        properties: dict[str, Schema] = schema.get("properties") or {}
        self._room.take(len(properties) // _LOOKED_UP)
        for name, sub in properties.items():
            if name not in value and sub.get("default") is not None:
                value[name] = self._room.copy(sub["default"])

    def _prune(
        self, schema: Schema, value: dict[str, Any], path: str, keep: frozenset[str]
    ) -> None:
        properties: dict[str, Schema] = schema.get("properties") or {}
        for name in [name for name in value if name not in properties and name not in keep]:
            self.unknown.append(joined(path, name))
            del value[name]


def _kept(sub: Schema, key: str | int, keep: frozenset[str] | None) -> frozenset[str] | None:
    """What a member may hold without its schema."""
    # CRDs name `metadata` without its fields: they are the same everywhere.
    if keep is None or key in keep:
        return None
    return IDENTITY if sub.get("x-kubernetes-embedded-resource") else _NOTHING


def children(schema: Schema, value: Any) -> Iterator[tuple[str | int, Any, Schema]]:
    """The key or index, value and schema of each member that the schema describes."""
    if isinstance(value, dict):
        properties: dict[str, Schema] = schema.get("properties") or {}
        extra = schema.get("additionalProperties")
        for name, child in value.items():
            sub = properties.get(name)
            if sub is None and isinstance(extra, dict):
                sub = extra
            if sub is not None:
                yield name, child, sub
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for index, child in enumerate(value):
                yield index, child, items


def old_members(schema: Schema, value: Any, old: Any) -> dict[str | int, Any]:
    """What the members of a value were before: by name, or in map lists by their keys."""
    if isinstance(value, dict) and isinstance(old, dict):
        return {} if schema.get("x-kubernetes-map-type") == "atomic" else dict(old)
    if (
        isinstance(value, list)
        and isinstance(old, list)
        and schema.get("x-kubernetes-list-type") == "map"
    ):
        keys: list[str] = schema.get("x-kubernetes-list-map-keys") or []
        before = {_list_key(keys, item): item for item in old if isinstance(item, dict)}
        return {
            index: before[key]
            for index, item in enumerate(value)
            if isinstance(item, dict) and (key := _list_key(keys, item)) in before
        }
    return {}


def _list_key(keys: list[str], item: dict[str, Any]) -> tuple[str, ...]:
    return tuple(repr(item.get(key)) for key in keys)


def joined(path: str, key: str | int) -> str:
    """The path of a member, as error messages write it."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def bracketed(path: str, schema: Schema, key: str | int) -> str:
    """The path of a member, as messages about rules and lists write it: `labels[a.b]`."""
    if isinstance(key, int) or key not in (schema.get("properties") or {}):
        return f"{path}[{key}]"
    return joined(path, key)


def _prune_metadata(meta: dict[str, Any], path: str) -> list[str]:
    names = [name for name in meta if name not in METADATA]
    for name in names:
        del meta[name]
    return [joined(path, name) for name in names]


def _takes_anything(schema: Schema) -> bool:
    extra = schema.get("additionalProperties")
    return bool(
        schema.get("x-kubernetes-preserve-unknown-fields")
        or extra is True
        or isinstance(extra, dict)
    )
