"""Strategic merge patches: maps are merged, and lists by the merge keys of the schema.

The patch may carry directives: `$patch` replaces or deletes a map or an element of a list,
`$retainKeys` names the keys of a map that stay, `$deleteFromPrimitiveList/FIELD` takes values out
of a list and `$setElementOrder/FIELD` says how it is ordered. Where elements end up follows
Kubernetes to the letter, since `kubectl apply` computes its next patch from it: elements of the
patch come in the patch's order, the others in the order they had, and where one of each may come
first, that is decided by the old list.

The old object is left as it was; the result may share parts with it and with the patch.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from kapilite.builtin import schemas
from kapilite.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

Object = dict[str, Any]
Schema = dict[str, Any]

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_STRATEGY = "x-kubernetes-patch-strategy"
_MERGE_KEY = "x-kubernetes-patch-merge-key"
_ANY: Schema = {}
_GONE = object()


def apply(schema: Schema | None, target: Object, patch: Object) -> Object:
    """The object that the patch makes of an object with this schema."""
    known = dict((schema or {}).get("properties") or {})
    known["metadata"] = schemas.of("meta.v1.ObjectMeta")
    return _map({**(schema or {}), "properties": known}, target, patch)


def _map(schema: Schema, old: Object, patch: Object) -> Object:
    if _PATCH in patch:
        match patch[_PATCH]:
            case "replace":
                return {key: value for key, value in patch.items() if key != _PATCH}
            case "delete":
                return {}
        raise _bad(f"unknown patch type: {patch[_PATCH]} in map: {patch}")
    result = _retained(old, patch)
    fields = {key: value for key, value in patch.items() if not key.startswith("$")}
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            _ordered(_sub(schema, name), result, name, fields.pop(name, None), value)
        elif key.startswith(_DELETE_FROM):
            name = key.removeprefix(_DELETE_FROM)
            result[name] = _without(result.get(name), value)
            if not result[name]:
                del result[name]
    for key, value in fields.items():
        if value is None:
            result.pop(key, None)
            continue
        made = _value(_sub(schema, key), result.get(key), value)
        if made is _GONE:
            result.pop(key, None)
        else:
            result[key] = made
    return result


def _value(schema: Schema, old: Any, patch: Any) -> Any:
    strategies = _strategies(schema)
    if isinstance(patch, dict) and isinstance(old, dict) and "replace" not in strategies:
        return _map(schema, old, patch)
    if isinstance(patch, list) and isinstance(old, list) and "merge" in strategies:
        return _list(schema, old, patch)
    return _fresh(patch)


def _retained(old: Object, patch: Object) -> Object:
    if _RETAIN not in patch:
        return dict(old)
    names = patch[_RETAIN]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _bad("invalid patch format of retainKeys")
    given = {key for key, value in patch.items() if not key.startswith("$") and value is not None}
    if not given <= set(names):
        raise _bad("patch content doesn't match retainKeys list", 422)
    return {key: value for key, value in old.items() if key in names}


def _without(old: Any, values: Any) -> list[Any]:
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        raise _bad("invalid patch format of primitive list")
    if not isinstance(old, list):
        return []
    gone = set(values)
    return [item for item in old if isinstance(item, dict | list) or item not in gone]


def _ordered(schema: Schema, result: Object, name: str, patch: Any, order: Any) -> None:
    """Merge one list, then put it in the order that the patch requests."""
    if not isinstance(order, list):
        raise _bad("invalid patch format of setElementOrder list")
    old = result.get(name)
    if isinstance(patch, list):
        _require_order(schema, patch, order)
        merged = _value(schema, old, patch)
    elif isinstance(old, list):
        merged = old
    else:
        return
    result[name] = _arranged(schema, merged, order, old if isinstance(old, list) else [])


def _require_order(schema: Schema, patch: list[Any], order: list[Any]) -> None:
    """What the patch adds or changes must come in the order that it requests.

    Of elements with directives, as `$patch: replace`, none may come after all others.
    """
    if not patch or not order:
        return
    key = _key_of(schema)
    left = deque(item for item in patch if not _is_deletion(item))
    for item in order:
        while left and _has_directive(left[0]):
            left.popleft()
        if left and key(left[0]) == key(item):
            left.popleft()
    if left:
        text = f"The order in patch list:\n{patch}\n doesn't match {_ORDER[:-1]} list:\n{order}\n"
        raise _bad(text)


def _is_deletion(item: Any) -> bool:
    return isinstance(item, dict) and item.get(_PATCH) == "delete"


def _has_directive(value: Any) -> bool:
    if isinstance(value, dict):
        return _PATCH in value or any(map(_has_directive, value.values()))
    return isinstance(value, list) and any(map(_has_directive, value))


def _list(schema: Schema, old: list[Any], patch: list[Any]) -> list[Any]:
    everything = [*old, *patch]
    if not any(isinstance(item, dict) for item in everything):
        if any(isinstance(item, list) for item in everything):
            raise _bad("lists of lists are not supported", 422)
        return _arranged(schema, list(dict.fromkeys(everything)), patch, old)
    if not all(isinstance(item, dict) for item in everything):
        raise _bad("list element types are not identical: all must be maps")
    if schema.get(_MERGE_KEY) is None:
        raise _bad("cannot merge lists of maps that have no merge key")
    return _list_of_maps(schema, old, patch)


def _list_of_maps(schema: Schema, old: list[Object], patch: list[Object]) -> list[Object]:
    key = _key_of(schema)
    changes = []
    gone: set[str] = set()
    replaced = False
    for item in patch:
        match item.get(_PATCH):
            case None:
                changes.append(item)
            case "delete":
                gone.add(key(item))
            case "replace":
                replaced = True
            case "merge":
                raise _bad("merging lists cannot yet be specified in the patch")
            case directive:
                raise _bad(f"unknown patch type: {directive} in map: {item}")
    if replaced:
        return [item for item in changes if item]
    kept = [item for item in old if key(item) not in gone] if gone else list(old)
    items = schema.get("items") or _ANY
    merged = list(kept)
    places = _places(key, merged) if changes else {}
    for item in changes:
        place = places.setdefault(key(item), len(merged))
        if place == len(merged):
            merged.append(_verbatim(item))
        else:
            merged[place] = _map(items, merged[place], item)
    return _arranged(schema, merged, changes, kept)


def _arranged(schema: Schema, merged: list[Any], order: list[Any], old: list[Any]) -> list[Any]:
    """What the order names, in that order, among the rest in the order of the old list."""
    key = _key_of(schema)
    wanted = _places(key, order)
    server = _places(key, old)
    named = sorted((m for m in merged if key(m) in wanted), key=lambda item: wanted[key(item)])
    others = [item for item in merged if key(item) not in wanted]
    others.sort(key=lambda item: server.get(key(item), -1))
    found: list[Any] = []
    left, right = deque(others), deque(named)
    while left and right:
        here, there = server.get(key(left[0])), server.get(key(right[0]))
        before = here is not None and there is not None and here < there
        found.append((left if before else right).popleft())
    return [*found, *left, *right]


def _places(key: Callable[[Any], str], items: list[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for place, item in enumerate(items):
        found.setdefault(key(item), place)
    return found


def _key_of(schema: Schema) -> Callable[[Any], str]:
    """How the elements of a list are identified."""
    name = schema.get(_MERGE_KEY)

    def key(item: Any) -> str:
        if name is None or not isinstance(item, dict):
            return f"{item}"
        if name not in item:
            raise _bad(f"map: {item} does not contain declared merge key: {name}")
        return f"{item[name]}"

    return key


def _fresh(value: Any) -> Any:
    """A value that meets nothing old: without nulls, and without what a directive is for."""
    if isinstance(value, dict):
        if _PATCH in value:
            return _GONE
        made = {k: _fresh(v) for k, v in value.items() if v is not None and k[:1] != "$"}
        return {key: item for key, item in made.items() if item is not _GONE}
    if isinstance(value, list):
        return [item for item in map(_fresh, value) if item is not _GONE]
    return value


def _verbatim(value: Any) -> Any:
    """A new element of a list: Kubernetes takes even what a directive in it would delete."""
    if isinstance(value, dict):
        return {k: _verbatim(v) for k, v in value.items() if v is not None and k[:1] != "$"}
    if isinstance(value, list):
        return [_verbatim(item) for item in value]
    return value


def _sub(schema: Schema, name: str) -> Schema:
    found = (schema.get("properties") or _ANY).get(name) or schema.get("additionalProperties")
    return found if isinstance(found, dict) else _ANY


def _strategies(schema: Schema) -> list[str]:
    text: str = schema.get(_STRATEGY) or ""
    return text.split(",")


def _bad(text: str, code: int = 400) -> ApiError:
    return ApiError(code, "BadRequest" if code == 400 else "Invalid", text)
