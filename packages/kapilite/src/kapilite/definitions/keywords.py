"""The keywords of a schema one by one: those that are not served, and those that need others.

This is what Kubernetes checks of every schema besides its being structural: keywords of OpenAPI
that it does not have, list and map types, and the rules in CEL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import problems as problem
from kapilite.cel import extents, rules, typed
from kapilite.definitions import budgets
from kapilite.definitions.shape import LOGIC, unread
from kapilite.problems import Problem
from kapilite.schemas.schema import EMBEDDED, PRESERVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Schema = dict[str, Any]

DEPTH_LIMIT = 64

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_META = frozenset({"metadata", "kind", "apiVersion"})
_LIST_TYPE, _MAP_KEYS = "x-kubernetes-list-type", "x-kubernetes-list-map-keys"
_MAP_TYPE = "x-kubernetes-map-type"


_WHY_UNSERVED = {
    name: f"{name} is not supported"
    for name in (
        "id",
        "patternProperties",
        "definitions",
        "additionalItems",
        "dependencies",
        "$ref",
    )
} | {
    "uniqueItems": (
        "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
    )
}
_EVEN_EMPTY = ("additionalItems", "dependencies", "$ref")


class _Place(NamedTuple):
    """Where in the schema something stands, and what that means for it."""

    path: str
    is_root: bool = False
    is_meta: bool = False
    """Within the identity of a resource."""
    no_default: str = ""
    """Why there may be no defaults; empty: there may."""
    lost_at: str = ""
    """The place from which on an old value cannot be found again."""
    has_rules: bool = True
    """Rules are compiled: the schema is structural so far, and this is outside of logic."""
    times: int | None = 1
    """How many values there can be here; None where the schema sets no limit."""
    depth: int = 0

    def below(self, name: str, **changes: Any) -> _Place:
        inner = self._replace(path=f"{self.path}.{name}", depth=self.depth + 1, is_root=False)
        return inner._replace(**changes)


class _Found(NamedTuple):
    """What is wrong with schemas, and with the rules in them."""

    schema: list[Problem]
    rules: list[Problem]
    costs: list[rules.Cost]


def problems(schema: Schema, path: str, *, with_rules: bool, is_kept: bool) -> list[Problem]:
    """What is wrong with keywords; with rules only where the schema can be made types of.

    A schema that an update keeps may have rules that cost more than new ones may.
    """
    found = _judged(schema, _Place(path, is_root=True, has_rules=with_rules))
    each = [] if is_kept else budgets.each(found.costs)
    return [*found.schema, *found.rules, *each, *budgets.total(found.costs, path)]


def _judged(schema: Schema, place: _Place) -> _Found:
    found = _Found([], [], [])
    if place.depth > DEPTH_LIMIT:
        why = f"nested more than {DEPTH_LIMIT} levels deep"
        found.schema.append(problem.forbidden(place.path, why))
        return found
    found.schema.extend(_unserved(schema, place))
    for sub, where in _members(schema, place):
        inner = _judged(sub, where)
        found.schema.extend(inner.schema)
        found.rules.extend(inner.rules)
        found.costs.extend(inner.costs)
    found.schema.extend(_maps(schema, place.path))
    found.schema.extend(_lists(schema, place.path))
    raw = schema.get(rules.RULES) or ()
    places = [f"{place.path}.{rules.RULES}[{index}]" for index in range(len(raw))]
    readable = None if raw and unread(schema) else schema
    for rule, field in zip(raw, places, strict=True):
        found.schema.extend(rules.malformed(readable, rule, field))
    if not raw or not place.has_rules or found.schema:
        return found
    is_resource = place.is_root or bool(schema.get(EMBEDDED))
    kind = typed.type_of(schema, is_root=is_resource)
    extent = extents.extent_of(schema, is_root=is_resource)
    if kind is None or extent is None:
        found.rules.append(_untyped(place.path))
        return found
    scope = rules.Scope(kind, extent, place.times, place.lost_at)
    for rule, field in zip(raw, places, strict=True):
        judged = rules.judged(rule, field, scope)
        found.rules.extend(judged.problems)
        found.costs.extend(judged.costs)
    return found


def _untyped(path: str) -> Problem:
    why = "failed to retrieve type information for x-kubernetes-validations"
    return Problem(
        "InternalError", f"Internal error: internal error: {why}", f"{path}.{rules.RULES}"
    )


def _unserved(schema: Schema, place: _Place) -> Iterator[Problem]:
    path, kind = place.path, schema.get("type", "")
    if kind and kind not in _TYPES:
        yield problem.not_supported(f"{path}.type", kind, _TYPES)
    if kind == "null":
        why = "type cannot be set to null, use nullable as an alternative"
        yield problem.forbidden(f"{path}.type", why)
    if "default" in schema and place.no_default:
        yield problem.forbidden(f"{path}.default", f"must not be set {place.no_default}")
    if place.is_meta and schema.get(EMBEDDED):
        field = f"{path}.{EMBEDDED}"
        yield problem.forbidden(field, "must not be used inside of resource meta")
    for name, why in _WHY_UNSERVED.items():
        if schema.get(name) or (name in _EVEN_EMPTY and name in schema):
            yield problem.forbidden(f"{path}.{name}", why)
    if isinstance(schema.get("items"), list):
        why = "items must be a schema object and not an array"
        yield problem.forbidden(f"{path}.items", why)
    extra = schema.get("additionalProperties")
    if schema.get("properties") and (extra is False or isinstance(extra, dict)):
        why = "additionalProperties and properties are mutual exclusive"
        yield problem.forbidden(f"{path}.additionalProperties", why)
    if schema.get(PRESERVES) is False:
        yield problem.invalid(f"{path}.{PRESERVES}", False, "must be true or undefined")


def _members(schema: Schema, place: _Place) -> Iterator[tuple[Schema, _Place]]:
    """The schemas right below this one, and what their place is."""
    here, below = place.times, extents.count_below(schema)
    place = place._replace(times=None if here is None or below is None else here * below)
    extra, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(extra, dict):
        why = "inside additionalProperties applying to object metadata"
        no_default = why if place.is_meta else place.no_default
        yield extra, place.below("additionalProperties", no_default=no_default)
    for name, sub in (schema.get("properties") or {}).items():
        where = place.below(f"properties[{name}]")
        if schema.get(_MAP_TYPE) == "atomic":
            where = where._replace(lost_at=place.lost_at or place.path)
        if name in _META and (place.is_root or schema.get(EMBEDDED)):
            no_default = f"in top-level {name}" if place.is_root else place.no_default
            where = where._replace(is_meta=True, no_default=no_default)
        yield sub, where
    for name, sub in _in_logic(schema):
        yield sub, place.below(name, has_rules=False)
    lost = place.lost_at
    if not lost and schema.get(_LIST_TYPE) != "map":
        lost = place.path
    if isinstance(items, dict):
        yield items, place.below("items", lost_at=lost)
    for index, sub in enumerate(items if isinstance(items, list) else ()):
        yield sub, place.below(f"items[{index}]", lost_at=lost)


def _in_logic(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The schemas below this one that have no type of their own, and such as are not served."""
    if "not" in schema:
        yield "not", schema["not"]
    for name in LOGIC:
        for index, sub in enumerate(schema.get(name) or ()):
            yield f"{name}[{index}]", sub
    for name in ("definitions", "dependencies"):
        for key, sub in (schema.get(name) or {}).items():
            if isinstance(sub, dict):
                yield f"{name}[{key}]", sub


def _maps(schema: Schema, path: str) -> Iterator[Problem]:
    kind = schema.get(_MAP_TYPE)
    if kind is None:
        return
    if schema.get("type") != "object":
        yield _wrong_type(schema, path, f"must be object if {_MAP_TYPE} is specified")
    if kind not in ("atomic", "granular"):
        yield problem.not_supported(f"{path}.{_MAP_TYPE}", kind, ("atomic", "granular"))


def _wrong_type(schema: Schema, path: str, why: str) -> Problem:
    kind, field = schema.get("type"), f"{path}.type"
    return problem.invalid(field, kind, why) if kind else problem.required(field, why)


def _lists(schema: Schema, path: str) -> Iterator[Problem]:
    kind, keys = schema.get(_LIST_TYPE), schema.get(_MAP_KEYS) or ()
    field = f"{path}.{_LIST_TYPE}"
    if keys and kind != "map":
        why = f"must be map if {_MAP_KEYS} is non-empty"
        yield problem.required(field, why) if kind is None else problem.invalid(field, kind, why)
    if kind is None:
        return
    listed = schema.get("items")
    items: Schema = listed if isinstance(listed, dict) else {}
    if schema.get("type") != "array":
        yield _wrong_type(schema, path, f"must be array if {_LIST_TYPE} is specified")
    elif kind == "set":
        yield from _set_items(items, f"{path}.items")
    if kind not in ("atomic", "set", "map"):
        yield problem.not_supported(field, kind, ("atomic", "set", "map"))
    if kind in ("set", "map") and items.get("nullable"):
        why = f"cannot be nullable when {_LIST_TYPE} is {kind}"
        yield problem.forbidden(f"{path}.items.nullable", why)
    if kind == "map":
        if not keys:
            why = f"must not be empty if {_LIST_TYPE} is map"
            yield problem.required(f"{path}.{_MAP_KEYS}", why)
        yield from _map_items(listed, f"{path}.items")
        yield from _map_keys(items, keys, path)


def _set_items(items: Schema, path: str) -> Iterator[Problem]:
    why = f"must be atomic as item of a list with {_LIST_TYPE}=set"
    for kind, name, unset in (("array", _LIST_TYPE, "atomic"), ("object", _MAP_TYPE, "granular")):
        if items.get("type") == kind and items.get(name, unset) != "atomic":
            yield problem.invalid(f"{path}.{name}", items.get(name), why)


def _map_items(items: Any, path: str) -> Iterator[Problem]:
    if items is None:
        yield problem.required(path, f"must have a schema if {_LIST_TYPE} is map")
    elif not isinstance(items, dict):
        yield problem.invalid(path, "", f"must only have a single schema if {_LIST_TYPE} is map")
    elif items.get("type") != "object":
        why = f"must be object if parent array's {_LIST_TYPE} is map"
        yield problem.invalid(f"{path}.type", items.get("type", ""), why)


def _map_keys(items: Schema, keys: Sequence[str], path: str) -> Iterator[Problem]:
    field = f"{path}.{_MAP_KEYS}"
    known, required = items.get("properties") or {}, frozenset(items.get("required") or ())
    absent = problem.invalid(field, keys, "entries must all be names of item properties")
    repeated = problem.invalid(field, keys, "must not contain duplicate entries")
    before: set[str] = set()
    for key in keys:
        place = f"{path}.items.properties[{key}]"
        sub = known.get(key)
        if items.get("type") == "object":
            if sub is None:
                yield absent
            elif sub.get("type") in ("array", "object"):
                why = f"must be a scalar type if parent array's {_LIST_TYPE} is map"
                yield problem.invalid(f"{place}.type", sub["type"], why)
            if key in before:
                yield repeated
            before.add(key)
        if sub is None:
            continue
        why = f"this property is in {_MAP_KEYS}, so it"
        if "default" not in sub and key not in required:
            yield problem.required(
                f"{place}.default", f"{why} must have a default or be a required property"
            )
        if sub.get("nullable"):
            yield problem.forbidden(f"{place}.nullable", f"{why} cannot be nullable")
