"""How the definitions that a cluster has differ from those that Laneway needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from laneway.api.crds import crds
from laneway.api.fields import VERSION
from laneway.api.registry import KINDS
from laneway.controllers.doctor.objects import Plain
from laneway.core.doctor.cluster_facts import Definition

NAMES = tuple(f"{info.plural}.{info.group}" for info in KINDS)
"""Of the definitions that Laneway needs."""
_RELEASE = "meta.helm.sh/release-name"
_DEEPEST = 12
"""Levels of a schema that are compared; ours have half as many."""


def compare(present: Iterable[Plain]) -> tuple[Definition, ...]:
    """Every definition of ours, with how the cluster has it."""
    there = {one.metadata.name: one for one in present}
    return tuple(
        _compared(name, wanted["spec"], there[name]) if name in there else Definition(name=name)
        for wanted in crds()
        for name in [wanted["metadata"]["name"]]
    )


def _compared(name: str, wanted: Mapping[str, Any], stored: Plain) -> Definition:
    ours, theirs = set(_fields(_schema(wanted))), set(_fields(_schema(stored.spec)))
    versions = [one.get("name", "") for one in _maps(stored.spec.get("versions"))]
    established = any(
        (one.get("type"), one.get("status")) == ("Established", "True")
        for one in _maps(stored.status.get("conditions"))
    )
    return Definition(
        name=name,
        present=True,
        established=established,
        versions=tuple(versions),
        lacks=tuple(_topmost(ours - theirs)),
        adds=tuple(_topmost(theirs - ours)),
        release=stored.metadata.annotations.get(_RELEASE, ""),
    )


def _schema(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    for version in _maps(spec.get("versions")):
        if version.get("name") == VERSION:
            return _map(_map(version.get("schema")).get("openAPIV3Schema"))
    return {}


def _fields(schema: Mapping[str, Any], path: str = "", depth: int = 0) -> Iterator[str]:
    """Every field that a schema keeps, as `.status.conditions[].type`."""
    if depth > _DEEPEST:
        return
    for name, inner in _map(schema.get("properties")).items():
        if path or name in ("spec", "status"):
            yield f"{path}.{name}"
            yield from _fields(_map(inner), f"{path}.{name}", depth + 1)
    if items := _map(schema.get("items")):
        yield from _fields(items, f"{path}[]", depth + 1)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Without those that are inside another."""
    found: list[str] = []
    for path in sorted(paths):
        if not (found and path.startswith((f"{found[-1]}.", f"{found[-1]}["))):
            found.append(path)
    return found


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
