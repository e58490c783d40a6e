"""What a schema says about ownership: which parts are owned one by one and which as a whole.

A type allows up to three forms (scalar, list, map); where a schema leaves the form open, the value
decides. Maps are granular and lists atomic unless the schema says otherwise, and so is everything
that it does not describe. Types are compiled once per schema.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, Literal

Schema = dict[str, Any]
Form = Literal["scalar", "list", "map"]
Scalar = Literal["string", "numeric", "boolean", "untyped"]


@dataclass(slots=True, eq=False)
class ListType:
    element: Type
    associative: bool = False
    """Items are owned one by one: a set, or with keys a map list."""
    keys: tuple[str, ...] = ()
    defaults: dict[str, Any] = field(default_factory=dict)
    """Of keys that an item may leave out."""


@dataclass(slots=True, eq=False)
class MapType:
    fields: dict[str, Type] = field(default_factory=dict)
    element: Type | None = None
    """Of the fields that have no type of their own; None: there are none."""
    atomic: bool = False


@dataclass(slots=True, eq=False)
class Type:
    scalar: Scalar | None = None
    list: ListType | None = None
    map: MapType | None = None

    def form(self, value: Any) -> Form:
        """As which form this value is treated."""
        if isinstance(value, dict):
            if self.map:
                return "map"
        elif isinstance(value, list):
            if self.list:
                return "list"
        elif value is not None and self.scalar:
            return "scalar"
        if self.map:
            return "map"
        return "scalar" if self.scalar else "list"


def _deduced() -> Type:
    atomic = Type("untyped")
    atomic.list = ListType(atomic)
    atomic.map = MapType(element=atomic, atomic=True)
    found = Type("untyped", ListType(atomic))
    found.map = MapType(element=found)
    return found


DEDUCED = _deduced()

_STRING = Type("string")
_NUMBER = Type("numeric")
_BOOLEAN = Type("boolean")
_UNTYPED = Type("untyped")
_STRINGS = Type(map=MapType(element=_STRING))
_OWNER = Type(
    map=MapType(
        {
            **dict.fromkeys(("apiVersion", "kind", "name", "uid"), _STRING),
            **dict.fromkeys(("controller", "blockOwnerDeletion"), _BOOLEAN),
        },
        atomic=True,
    )
)
METADATA = Type(
    map=MapType(
        {
            **dict.fromkeys(
                ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"), _STRING
            ),
            **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), _UNTYPED),
            **dict.fromkeys(("generation", "deletionGracePeriodSeconds"), _NUMBER),
            **dict.fromkeys(("labels", "annotations"), _STRINGS),
            "finalizers": Type(list=ListType(_STRING, associative=True)),
            "ownerReferences": Type(list=ListType(_OWNER, associative=True, keys=("uid",))),
            "managedFields": Type(list=ListType(DEDUCED)),
        }
    )
)
_IDENTITY = {"apiVersion": _STRING, "kind": _STRING, "metadata": METADATA}

_CACHE_SIZE = 512
# By identity, which is safe because the schema is kept alive with its type.
_cache: OrderedDict[int, tuple[Schema, Type]] = OrderedDict()


def of_kind(schema: Schema | None) -> Type:
    """The type of the objects that a structural schema describes."""
    if schema is None:
        schema = _UNKNOWN
    found = _cache.get(id(schema))
    if found is not None:
        return found[1]
    compiled = _compiled(schema, open_=False)
    root = compiled.map or MapType(element=DEDUCED)
    root.fields = {**root.fields, **_IDENTITY}
    if compiled.map and not schema.get("properties") and not _is_open(schema):
        root.element = None
    _cache[id(schema)] = schema, Type(map=root)
    if len(_cache) > _CACHE_SIZE:
        _cache.popitem(last=False)
    return _cache[id(schema)][1]


_UNKNOWN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _is_open(schema: Schema) -> bool:
    extra = schema.get("additionalProperties")
    return bool(
        schema.get("x-kubernetes-preserve-unknown-fields") or extra or isinstance(extra, dict)
    )


def _compiled(schema: Schema, *, open_: bool) -> Type:
    """`open_`: an outer schema keeps unknown fields."""
    open_ = open_ or bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    match schema.get("type"):
        case "object":
            return Type(map=_map(schema, open_=open_))
        case "array":
            return Type(list=_list(schema, open_=open_))
        case "integer" | "number":
            return _NUMBER
        case "boolean":
            return _BOOLEAN
        case "string":
            return _STRING if schema.get("format") in (None, "", "byte") else _UNTYPED
    return Type("untyped", _list(schema, open_=open_), _map(schema, open_=open_))


def _map(schema: Schema, *, open_: bool) -> MapType:
    fields = {
        name: _compiled(sub, open_=open_) for name, sub in (schema.get("properties") or {}).items()
    }
    if schema.get("x-kubernetes-embedded-resource"):
        fields |= _IDENTITY
    extra = schema.get("additionalProperties")
    element: Type | None = None
    if isinstance(extra, dict):
        element = _compiled(extra, open_=open_)
    elif extra or (extra is None and (open_ or not fields)):
        element = DEDUCED
    return MapType(fields, element, atomic=schema.get("x-kubernetes-map-type") == "atomic")


def _list(schema: Schema, *, open_: bool) -> ListType:
    items = schema.get("items")
    if not isinstance(items, dict):
        return ListType(DEDUCED)
    element = _compiled(items, open_=open_)
    keys: tuple[str, ...] = ()
    match schema.get("x-kubernetes-list-type"):
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        case "set":
            pass
        case None if str(schema.get("x-kubernetes-patch-strategy", "")).startswith("merge"):
            merge_key = schema.get("x-kubernetes-patch-merge-key")
            keys = (merge_key,) if merge_key else ()
        case _:
            return ListType(element)
    described = items.get("properties") or {}
    defaults = {
        key: described[key]["default"]
        for key in keys
        if described.get(key, {}).get("default") is not None
    }
    return ListType(element, associative=True, keys=keys, defaults=defaults)
