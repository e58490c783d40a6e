"""How large the values of a schema can be: what the cost of a rule is reckoned by.

As in Kubernetes: limits are those of the schema, or what fits into one request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kapilite.cel.typed import Schema, escaped, properties_of

REQUEST_LIMIT = 3 * 1024 * 1024
"""Bytes."""

_QUOTES = 2
_LONGEST_TIMES = {"duration": 32, "date": 12, "date-time": 32}
_SHORTEST_TIMES = {"duration": 3, "date": 12, "date-time": 21}
_UTF8 = 4
"""Bytes that a character may have."""


class Extent(NamedTuple):
    """The size of a value and of its parts."""

    most: int
    """The largest size of texts, lists and maps; nothing is known of others."""
    shortest: int
    """Bytes of JSON that a value needs at least."""
    members: dict[str, Extent]
    """By the names of fields; `@items`, `@keys` and `@values` of lists and maps."""

    def at(self, path: tuple[str, ...]) -> Extent | None:
        found: Extent | None = self
        for name in path:
            found = found.members.get(name) if found is not None else None
        return found


def extent_of(schema: Any, *, is_root: bool = False) -> Extent | None:
    """The extent of values with this schema; None where a rule cannot see them."""
    if not isinstance(schema, dict):
        return None
    is_root = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
    limit = schema.get("maxLength")
    if schema.get("x-kubernetes-int-or-string"):
        return Extent(REQUEST_LIMIT - _QUOTES if limit is None else max(limit, 0) * _UTF8, 1, {})
    match "object" if is_root else schema.get("type"):
        case "array":
            return _list(schema)
        case "object" if isinstance(schema.get("additionalProperties"), dict) and not is_root:
            return _map(schema)
        case "object":
            return _object(schema, is_root=is_root)
        case "string":
            return _text(schema, limit)
        case "boolean":
            return Extent(0, 4, {})
        case "number" | "integer":
            return Extent(0, 1, {})
    return None


def _list(schema: Schema) -> Extent | None:
    item = extent_of(schema.get("items"))
    if item is None:
        return None
    limit = schema.get("maxItems")
    most = (REQUEST_LIMIT - 2) // (item.shortest + 1) if limit is None else max(limit, 0)
    return Extent(most, 2, {"@items": item})


def _map(schema: Schema) -> Extent | None:
    value = extent_of(schema["additionalProperties"])
    if value is None:
        return None
    limit = schema.get("maxProperties")
    most = (REQUEST_LIMIT - 2) // (value.shortest + 6) if limit is None else max(limit, 0)
    return Extent(most, 2, {"@keys": Extent(0, _QUOTES, {}), "@values": value})


def _object(schema: Schema, *, is_root: bool) -> Extent:
    members: dict[str, Extent] = {}
    shortest = 2
    required = schema.get("required") or ()
    for name, sub in properties_of(schema, is_root=is_root).items():
        found = extent_of(sub)
        if found is None:
            continue
        if field := escaped(name):
            members[field] = found
        if name in required and sub.get("default") is None:
            shortest += len(name.encode()) + found.shortest + 4
    return Extent(0, shortest, members)


def _text(schema: Schema, limit: int | None) -> Extent:
    name = schema.get("format", "")
    if name in _LONGEST_TIMES:
        return Extent(_LONGEST_TIMES[name], _SHORTEST_TIMES[name], {})
    if limit is not None:
        return Extent(max(limit, 0) * (1 if name == "byte" else _UTF8), _QUOTES, {})
    values = schema.get("enum") if name != "byte" else None
    if values:
        return Extent(
            max(len(one.encode()) if isinstance(one, str) else 0 for one in values), 2, {}
        )
    return Extent(REQUEST_LIMIT - _QUOTES, _QUOTES, {})


def count_below(schema: Schema) -> int | None:
    """How many members of each kind a value can have; None where the schema sets no limit."""
    limit: int | None = None
    match schema.get("type"):
        case "array":
            limit = schema.get("maxItems")
        case "object" if schema.get("additionalProperties") is not None:
            limit = schema.get("maxProperties")
        case _:
            return 1
    return None if limit is None else max(limit, 0)


def times_in_request(extent: Extent) -> int:
    """How many values of this size fit into one request."""
    return REQUEST_LIMIT // (extent.shortest + 1)
