"""CustomResourceDefinitions: what is wrong with one, and the kinds it makes.

A definition that passes `problems` is served in every version it names: its names do not clash,
its schemas are structural and hold nothing this server cannot honour. Objects are kept in one form
for all versions, so there is no conversion but that of apiVersion; a definition that asks for a
conversion webhook is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.apiserver import metadata, structural
from laneway.apiserver import problems as problem
from laneway.apiserver.kinds import Column, Kind
from laneway.apiserver.tables import compile_path
from laneway.apiserver.validation import problems as schema_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from laneway.apiserver.problems import Problem

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING, "nullable": True}
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["group", "names", "scope", "versions"],
    "properties": {
        "group": {"type": "string", "minLength": 1},
        "scope": {"type": "string", "enum": ["Cluster", "Namespaced"]},
        "preserveUnknownFields": {"type": "boolean", "enum": [False], "nullable": True},
        "names": {
            "type": "object",
            "required": ["kind", "plural"],
            "properties": {
                "kind": {"type": "string", "minLength": 1},
                "listKind": _STRING,
                "plural": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
                "singular": _STRING,
                "shortNames": _STRINGS,
                "categories": _STRINGS,
            },
        },
        "conversion": {
            "type": "object",
            "nullable": True,
            "properties": {"strategy": {"type": "string", "enum": ["None"]}},
        },
        "versions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "served", "storage", "schema"],
                "properties": {
                    "name": {"type": "string", "pattern": "^[a-z]([-a-z0-9]*[a-z0-9])?$"},
                    "served": {"type": "boolean"},
                    "storage": {"type": "boolean"},
                    "schema": {
                        "type": "object",
                        "required": ["openAPIV3Schema"],
                        "properties": {"openAPIV3Schema": {"type": "object"}},
                    },
                    "subresources": {
                        "type": "object",
                        "nullable": True,
                        "properties": {"status": {"type": "object", "nullable": True}},
                    },
                    "additionalPrinterColumns": {
                        "type": "array",
                        "nullable": True,
                        "items": {
                            "type": "object",
                            "required": ["name", "type", "jsonPath"],
                            "properties": {
                                "name": _STRING,
                                "type": {"type": "string", "enum": list(_COLUMN_TYPES)},
                                "jsonPath": _STRING,
                                "priority": {"type": "integer"},
                                "format": _STRING,
                                "description": _STRING,
                            },
                        },
                    },
                },
            },
        },
    },
}


def default_names(crd: dict[str, Any]) -> None:
    """The names that a definition may leave out."""
    names = crd.get("spec", {}).get("names") if isinstance(crd.get("spec"), dict) else None
    if isinstance(names, dict) and isinstance(names.get("kind"), str):
        names.setdefault("listKind", f"{names['kind']}List")
        names.setdefault("singular", names["kind"].lower())
        crd["spec"].setdefault("conversion", {"strategy": "None"})


def problems(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind]
) -> list[Problem]:
    """Everything that keeps this definition from being served beside `kinds`."""
    spec = crd.get("spec")
    found = [p._replace(field=f"spec.{p.field}".rstrip(".")) for p in schema_problems(_SPEC, spec)]
    if found:
        return found  # the rest reads these fields
    assert isinstance(spec, dict)  # noqa: S101 - just validated
    found.extend(_naming(crd, kinds))
    found.extend(_versions(spec))
    if old is not None:
        found.extend(_immutable("spec", spec, old["spec"], ("group", "scope")))
        found.extend(
            _immutable("spec.names", spec["names"], old["spec"]["names"], ("plural", "kind"))
        )
    for index, version in enumerate(spec["versions"]):
        found.extend(_columns(version, f"spec.versions[{index}].additionalPrinterColumns"))
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = version["schema"]["openAPIV3Schema"]
        found.extend(structural.problems(schema, path))
        if schema.get("type") != "object":
            found.append(problem.invalid(f"{path}.type", schema.get("type"), "must be object"))
    return found


def established(crd: dict[str, Any], old: dict[str, Any] | None) -> dict[str, Any]:
    """The status of a definition that is served."""
    before = (old or {}).get("status") or {}
    versions = crd["spec"]["versions"]
    storage = next(v["name"] for v in versions if v["storage"])
    stored = [name for name in before.get("storedVersions", []) if name != storage]
    return {
        "acceptedNames": crd["spec"]["names"],
        "storedVersions": [*stored, storage],
        "conditions": before.get("conditions")
        or [
            _condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            _condition(
                "Established", "InitialNamesAccepted", "the initial names have been accepted"
            ),
        ],
    }


def kinds(crd: dict[str, Any]) -> list[Kind]:
    """One kind for each served version."""
    spec = crd["spec"]
    names = spec["names"]
    storage = next(v["name"] for v in spec["versions"] if v["storage"])
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
            schema=version["schema"]["openAPIV3Schema"],
            has_status=(version.get("subresources") or {}).get("status") is not None,
            storage_version=storage,
            custom=True,
        )
        for version in spec["versions"]
        if version["served"]
    ]


def _condition(kind: str, reason: str, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": metadata.now(),
    }


def _column(raw: dict[str, Any]) -> Column:
    return Column(
        name=raw["name"],
        type=raw["type"],
        json_path=raw["jsonPath"],
        description=raw.get("description", ""),
        format=raw.get("format", ""),
        priority=raw.get("priority", 0),
    )


def _naming(crd: dict[str, Any], kinds: Iterable[Kind]) -> Iterator[Problem]:
    spec, names = crd["spec"], crd["spec"]["names"]
    wanted = f"{names['plural']}.{spec['group']}"
    name = crd["metadata"].get("name")
    if name != wanted:
        yield problem.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if "." not in spec["group"]:
        yield problem.invalid(
            "spec.group", spec["group"], "should be a domain with at least one dot"
        )
    for other in kinds:
        if other.group != spec["group"] or other.resource == wanted:
            continue
        if not other.custom:
            yield problem.forbidden("spec.group", "is served by this server itself")
            return
        if other.kind == names["kind"]:
            yield problem.invalid(
                "spec.names.kind", names["kind"], f"is already in use by {other.resource}"
            )
            return


def _versions(spec: dict[str, Any]) -> Iterator[Problem]:
    versions = spec["versions"]
    if sum(version["storage"] for version in versions) != 1:
        yield problem.invalid(
            "spec.versions", "", "must have exactly one version marked as storage version"
        )
    seen = [version["name"] for version in versions]
    for name in sorted({name for name in seen if seen.count(name) > 1}):
        yield problem.invalid("spec.versions", name, "must contain unique version names")


def _columns(version: dict[str, Any], path: str) -> Iterator[Problem]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        try:
            compile_path(column["jsonPath"])
        except ValueError as error:
            yield problem.invalid(f"{path}[{index}].jsonPath", column["jsonPath"], str(error))


def _immutable(
    path: str, new: dict[str, Any], old: dict[str, Any], fields: Iterable[str]
) -> Iterator[Problem]:
    for field in fields:
        if new[field] != old[field]:
            yield problem.invalid(f"{path}.{field}", new[field], "field is immutable")
