"""What lists and embedded resources must be beyond what keywords of a schema say.

Items of a set and keys of a map list are unique; an embedded resource names its kind and has
metadata that would be valid on its own. On an update that finds duplicates where there were some
before, they are let pass, as Kubernetes does.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.schemas.schema import Schema, bracketed, children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem


def invariants(schema: Schema, value: Any, old: Any, absent: Any) -> list[Problem]:
    """What is wrong with lists and embedded resources; `old` may be `absent`."""
    found = list(_embedded(schema, value, ""))
    duplicates = list(_duplicates(schema, value, ""))
    if duplicates and (old is absent or not any(_duplicates(schema, old, ""))):
        found += duplicates
    return found


def _duplicates(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    if isinstance(value, list):
        match schema.get("x-kubernetes-list-type"):
            case "set":
                for index in _repeated(value):
                    yield problem.duplicate(f"{path}[{index}]", value[index])
            case "map":
                yield from _duplicate_keys(schema, value, path)
    for key, child, sub in children(schema, value):
        if isinstance(child, list | dict):
            yield from _duplicates(sub, child, bracketed(path, schema, key))


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


def _embedded(schema: Schema, value: Any, path: str) -> Iterator[Problem]:
    if schema.get("x-kubernetes-embedded-resource") and isinstance(value, dict):
        yield from _resource(value, f"{path}." if path else "")
    for key, child, sub in children(schema, value):
        if isinstance(child, list | dict):
            yield from _embedded(sub, child, bracketed(path, schema, key))


def _resource(value: dict[str, Any], prefix: str) -> Iterator[Problem]:
    for name in ("apiVersion", "kind"):
        field, text = f"{prefix}{name}", value.get(name, "")
        if not isinstance(text, str):
            yield problem.invalid(field, text, "must be a string")
        elif not text:
            yield problem.required(field)
        elif name == "kind" and not names.is_label_1035(text.lower()):
            why = f"may have mixed case, but should otherwise match: {names.LABEL_1035_TEXT}"
            yield problem.invalid(field, text, why)
        elif name == "apiVersion" and text.count("/") > 1:
            yield problem.invalid(field, text, f"unexpected GroupVersion string: {text}")
    if "metadata" in value:
        yield from _metadata(value["metadata"], f"{prefix}metadata")


def _metadata(meta: Any, path: str) -> Iterator[Problem]:
    # Metadata itself is checked with the means of `validation`, which builds on this module.
    from kapilite import metadata  # noqa: PLC0415 - it imports us
    from kapilite.schemas import validation  # noqa: PLC0415 - as above

    wrong = validation.structure_problems(metadata.SCHEMA, meta)
    yield from (
        found._replace(field=".".join(filter(None, (path, found.field)))) for found in wrong
    )
    if wrong:
        return
    for key, text in (meta.get("labels") or {}).items():
        yield from problem.unfit(f"{path}.labels", key, names.qualified_name(key))
        yield from problem.unfit(f"{path}.labels", text, names.label_value(text))
    for key in meta.get("annotations") or {}:
        lower = key.lower()
        yield from problem.unfit(f"{path}.annotations", lower, names.qualified_name(lower))
