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

IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
"""At the root of every object, and of an embedded resource, whatever its schema names."""
EMBEDDED = "x-kubernetes-embedded-resource"
PRESERVES = "x-kubernetes-preserve-unknown-fields"


def fit(schema: Schema, value: Any, *, is_root: bool = True) -> list[str]:
    """Fill in defaults and remove what the schema does not know; the paths of what was removed.

    Null is dropped where it is not allowed. Raises a 413 where defaults are a lot.
    """
    unknown = prune(schema, value, is_root=is_root)
    default(schema, value)
    return unknown


def prune(schema: Schema, value: Any, *, is_root: bool) -> list[str]:
    """Remove what the schema does not know; `is_root` says that it is of a resource."""
    pruning = _Pruning()
    pruning.walk(schema, value, "", is_resource=is_root)
    return pruning.unknown


def default(schema: Schema, value: Any) -> None:
    """Fill in defaults, and drop null where it is not allowed."""
    _fill(schema, value, _Room())


class _Pruning:
    """One object from which unknown fields are removed, in one walk."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def walk(
        self, schema: Schema | None, value: Any, path: str, *, is_resource: bool = False
    ) -> None:
        """Without a schema nothing in the value is known."""
        if schema is not None and schema.get(PRESERVES):
            self._spare(schema, value, path, is_resource=is_resource)
        elif isinstance(value, dict):
            is_resource = is_resource or (schema is not None and bool(schema.get(EMBEDDED)))
            for key in list(value):
                if is_resource and key in IDENTITY:
                    continue
                is_known, sub = _member(schema, key)
                if is_known:
                    if isinstance(value[key], _CONTAINERS):
                        self.walk(sub, value[key], joined(path, key))
                    continue
                self.unknown.append(joined(path, key))
                del value[key]
        elif isinstance(value, list):
            sub = _items(schema)
            for index, item in enumerate(value):
                if isinstance(item, _CONTAINERS):
                    self.walk(sub, item, joined(path, index))

    def _spare(self, schema: Schema, value: Any, path: str, *, is_resource: bool = False) -> None:
        """Where unknown fields are preserved, what is known is pruned all the same."""
        if isinstance(value, dict):
            is_resource = is_resource or bool(schema.get(EMBEDDED))
            for key, member in value.items():
                if is_resource and key in IDENTITY:
                    continue
                is_known, sub = _member(schema, key)
                if is_known and isinstance(member, _CONTAINERS):
                    self.walk(sub, member, joined(path, key))
        elif isinstance(value, list) and (sub := _items(schema)) is not None:
            for index, item in enumerate(value):
                self._spare(sub, item, joined(path, index))


def _member(schema: Schema | None, key: str) -> tuple[bool, Schema | None]:
    """Whether a schema knows a field, and what it says of it."""
    if schema is None:
        return False, None
    properties = schema.get("properties")
    if properties and key in properties:
        return True, properties[key]
    extra = schema.get("additionalProperties")
    return extra is not None, extra if isinstance(extra, dict) else None


def _items(schema: Schema | None) -> Schema | None:
    items = None if schema is None else schema.get("items")
    return items if isinstance(items, dict) else None


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


def _fill(schema: Schema, value: Any, room: _Room, *, is_default: bool = False) -> None:
    """`is_default`: the value is a default itself, so a null in it is meant."""
    if isinstance(value, dict):
        made = _made(schema, value, room)
        for key, child in list(value.items()):
            sub = _member(schema, key)[1]
            if sub is None:
                continue
            if child is None and not sub.get("nullable"):
                if sub.get("default") is not None:
                    value[key] = room.copy(sub["default"])
                    made.add(key)
                elif not is_default:
                    del value[key]
                    continue
            if isinstance(value[key], _CONTAINERS):
                _fill(sub, value[key], room, is_default=is_default or key in made)
    elif isinstance(value, list) and (sub := _items(schema)) is not None:
        for index, item in enumerate(value):
            is_new = item is None and not sub.get("nullable") and sub.get("default") is not None
            if is_new:
                value[index] = room.copy(sub["default"])
            if isinstance(value[index], _CONTAINERS):
                _fill(sub, value[index], room, is_default=is_default or is_new)


def _made(schema: Schema, value: dict[str, Any], room: _Room) -> set[str]:
    """Add the fields that are missing and have a default; their names."""
    properties: dict[str, Schema] = schema.get("properties") or {}
    room.take(len(properties) // _LOOKED_UP)
    names = {
        name
        for name, sub in properties.items()
        if name not in value and sub.get("default") is not None
    }
    for name in names:
        value[name] = room.copy(properties[name]["default"])
    return names


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
