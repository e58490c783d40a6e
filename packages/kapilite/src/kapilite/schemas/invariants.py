"""What lists and embedded resources must be beyond what keywords of a schema say.

Items of a set and keys of a map list are unique; an embedded resource names its kind and has
metadata that would be valid on its own. On an update that finds duplicates where there were some
before, they are let pass, as Kubernetes does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import names
from kapilite import problems as problem
from kapilite.schemas import object_meta
from kapilite.schemas.ratcheting import ABSENT
from kapilite.schemas.schema import Schema, bracketed, children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem


def invariants(schema: Schema, value: Any, old: Any, places: frozenset[int]) -> list[Problem]:
    """What is wrong with lists and embedded resources; `old` may be `ABSENT`.

    `places` are those of the schema.
    """
    found = _Found([], [], places)
    _look(schema, value, "", found)
    if found.duplicates and old is not ABSENT:
        before = _Found([], [], places)
        _look(schema, old, "", before)
        if before.duplicates:
            return found.resources
    return [*found.resources, *found.duplicates]


def places_of(schema: Any) -> frozenset[int]:
    """The parts of a schema, by `id`, at or below which there is something to look at."""
    found: set[int] = set()
    _mark(schema, found)
    return frozenset(found)


def _mark(schema: Any, found: set[int]) -> bool:
    if not isinstance(schema, dict):
        return False
    below = [*(schema.get("properties") or {}).values(), schema.get("additionalProperties")]
    is_marked = [_mark(sub, found) for sub in (*below, schema.get("items"))]
    own = schema.get("x-kubernetes-list-type") in ("set", "map")
    if own or schema.get("x-kubernetes-embedded-resource") or any(is_marked):
        found.add(id(schema))
        return True
    return False


class _Found(NamedTuple):
    """What is wrong, by what it is, and where to look for it."""

    resources: list[Problem]
    duplicates: list[Problem]
    places: frozenset[int]


def _look(schema: Schema, value: Any, path: str, found: _Found) -> None:
    if id(schema) not in found.places:
        return
    if isinstance(value, dict):
        if schema.get("x-kubernetes-embedded-resource"):
            found.resources.extend(_resource(value, f"{path}." if path else ""))
    elif isinstance(value, list):
        match schema.get("x-kubernetes-list-type"):
            case "set":
                repeated = (problem.duplicate(f"{path}[{i}]", value[i]) for i in _repeated(value))
                found.duplicates.extend(repeated)
            case "map":
                found.duplicates.extend(_duplicate_keys(schema, value, path))
    for key, child, sub in children(schema, value):
        if isinstance(child, dict | list):
            _look(sub, child, bracketed(path, schema, key), found)


def _duplicate_keys(schema: Schema, items: list[Any], path: str) -> Iterator[Problem]:
    names = schema.get("x-kubernetes-list-map-keys") or ()
    keys = []
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            why = "must be an object for an array of list-type map"
            yield problem.invalid(f"{path}[{index}]", item, why)
            return
        keys.append({name: item[name] for name in names if name in item} if item else {})
    for index in _repeated(keys):
        yield problem.duplicate(f"{path}[{index}]", keys[index])


def _repeated(items: list[Any]) -> Iterator[int]:
    """Where each repeated item comes for the second time."""
    counts: dict[str, int] = {}
    for index, item in enumerate(items):
        text = json.dumps(item, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
        if counts[text] == 2:
            yield index


def _resource(value: dict[str, Any], prefix: str) -> Iterator[Problem]:
    for name in ("apiVersion", "kind"):
        field, text = f"{prefix}{name}", value.get(name)
        if text is None:
            yield problem.required(field)
        elif not isinstance(text, str):
            yield problem.invalid(field, text, "must be a string")
        elif not text:
            yield problem.invalid(field, text, "must not be empty")
        elif name == "kind" and not names.is_label_1035(text.lower()):
            why = f"may have mixed case, but should otherwise match: {names.LABEL_1035_TEXT}"
            yield problem.invalid(field, text, why)
        elif name == "apiVersion" and text.count("/") > 1:
            yield problem.invalid(field, text, f"unexpected GroupVersion string: {text}")
    if "metadata" in value:
        yield from object_meta.problems(value["metadata"], f"{prefix}metadata")
