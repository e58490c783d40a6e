"""JSON patch operations (RFC 6902) on an object of which parts may be missing.

A list is always replaced as a whole: operations on single items depend on each other's positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired, TypedDict

from laneway.core.raw import Json


class PatchOperation(TypedDict):
    """One change."""

    op: Literal["add", "remove", "replace"]
    path: str
    value: NotRequired[Json]


def put(raw: Json, path: Sequence[str], value: Json) -> PatchOperation:
    """Have this value at a path, with the parents that are missing."""
    here = raw
    for depth, key in enumerate(path):
        inner = here.get(key) if isinstance(here, Mapping) else None
        if inner is None and depth < len(path) - 1:
            for name in reversed(path[depth + 1 :]):
                value = {name: value}
            return {"op": "add", "path": _pointer(path[: depth + 1]), "value": value}
        here = inner
    return {"op": "add", "path": _pointer(path), "value": value}


def remove(path: Sequence[str]) -> PatchOperation:
    """Have nothing at a path where something is."""
    return {"op": "remove", "path": _pointer(path)}


def _pointer(path: Sequence[str]) -> str:
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in path)
