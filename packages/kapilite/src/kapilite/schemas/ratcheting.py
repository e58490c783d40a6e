"""What an update leaves as it was, which is not complained about.

As in Kubernetes, values are followed from the old object to the new one by the names of fields that
the schema knows, and in lists of type map by their keys; all other lists are one value.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

ABSENT = object()


def is_same(left: Any, right: Any) -> bool:
    """Equality of JSON values as Go has it: neither `true` nor `1.0` is 1."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(is_same(left[k], right[k]) for k in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(is_same, left, right))
    return bool(left == right)


def is_unchanged(schema: Schema, value: Any, old: Any) -> bool:
    """Whether an update leaves a value as it was, as far as the schema knows it."""
    if isinstance(value, dict) and isinstance(old, dict):
        if value.keys() != old.keys():
            return False
        return all(
            sub is not None and is_unchanged(sub, child, old[key])
            for key, child in value.items()
            for sub in (_field(schema, key),)
        )
    if isinstance(value, list) and isinstance(old, list):
        if len(value) != len(old):
            return False
        items = schema.get("items")
        if schema.get("x-kubernetes-list-type") != "map" or not isinstance(items, dict):
            return is_same(value, old)
        before = previous(schema, value, old)
        return all(
            index in before and is_unchanged(items, item, before[index])
            for index, item in enumerate(value)
        )
    return is_same(value, old)


def previous(schema: Schema, value: Any, old: Any) -> dict[str | int, Any]:
    """What the members of a value were before, as far as they can be followed."""
    if isinstance(value, dict) and isinstance(old, dict):
        return {key: old[key] for key in value if key in old and _field(schema, key) is not None}
    is_map = schema.get("x-kubernetes-list-type") == "map" and schema.get("type") == "array"
    if is_map and isinstance(value, list) and isinstance(old, list):
        names: list[str] = schema.get("x-kubernetes-list-map-keys") or []
        before: dict[Any, Any] = {}
        for item in old:
            key = _key(names, item)
            if key is not None:
                before.setdefault(key, item)
        keys = enumerate(_key(names, item) for item in value)
        return {index: before[key] for index, key in keys if key is not None and key in before}
    return {}


def _field(schema: Schema, name: str) -> Schema | None:
    found = (schema.get("properties") or {}).get(name)
    if found is None:
        extra = schema.get("additionalProperties")
        found = extra if isinstance(extra, dict) else None
    return found


def _key(names: list[str], item: Any) -> tuple[Any, ...] | None:
    """What finds an item in a list of type map; None where it has no such."""
    if not isinstance(item, dict):
        return None
    values = [item.get(name) for name in names]
    if not all(isinstance(value, bool | int | float | str) for value in values):
        return None
    return tuple((type(value), value) for value in values)
