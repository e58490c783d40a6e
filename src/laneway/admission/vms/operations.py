"""JSON patch operations (RFC 6902) on an object of which parts may be missing.

A list is always replaced as a whole: operations on single items depend on each other's positions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Operation = Mapping[str, Any]


def put(raw: Any, path: Sequence[str], value: Any) -> Operation:
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


def remove(path: Sequence[str]) -> Operation:
    """Have nothing at a path where something is."""
    return {"op": "remove", "path": _pointer(path)}


def _pointer(path: Sequence[str]) -> str:
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in path)


def at(raw: Any, path: Sequence[str]) -> Any:
    """What is at a path; None for nothing."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw
