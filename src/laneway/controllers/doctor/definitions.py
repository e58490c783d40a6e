"""How the definitions that a cluster has differ from those that Laneway needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from laneway.api.crds import crds
from laneway.api.fields import VERSION
from laneway.api.registry import KINDS
from laneway.controllers.doctor.objects import Plain
from laneway.core.doctor.cluster_facts import Definition
from laneway.core.raw import Json, JsonObject, at, items, members

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


def _compared(name: str, wanted: JsonObject, stored: Plain) -> Definition:
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
        versions=tuple(map(str, versions)),
        lacks=tuple(_topmost(ours - theirs)),
        adds=tuple(_topmost(theirs - ours)),
        release=stored.metadata.annotations.get(_RELEASE, ""),
    )


def _schema(spec: JsonObject) -> JsonObject:
    for version in _maps(spec.get("versions")):
        if version.get("name") == VERSION:
            return members(at(version, ("schema", "openAPIV3Schema")))
    return {}


def _fields(schema: JsonObject, path: str = "", depth: int = 0) -> Iterator[str]:
    """Every field that a schema keeps, as `.status.conditions[].type`."""
    if depth > _DEEPEST:
        return
    for name, inner in members(schema.get("properties")).items():
        if path or name in ("spec", "status"):
            yield f"{path}.{name}"
            yield from _fields(members(inner), f"{path}.{name}", depth + 1)
    if inner := schema.get("items"):
        yield from _fields(members(inner), f"{path}[]", depth + 1)


def _topmost(paths: Iterable[str]) -> list[str]:
    """Without those that are inside another."""
    found: list[str] = []
    for path in sorted(paths):
        if not (found and path.startswith((f"{found[-1]}.", f"{found[-1]}["))):
            found.append(path)
    return found


def _maps(value: Json) -> list[JsonObject]:
    return [one for one in items(value) if isinstance(one, Mapping)]
