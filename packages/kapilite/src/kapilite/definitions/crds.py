"""CustomResourceDefinitions: what is wrong with one, and the kinds it makes.

A definition that passes `problems` can be served in every version it names: its schemas are
structural and hold nothing this server cannot honour. Objects are kept in one form for all
versions, so there is no conversion but that of apiVersion; a definition that requests a conversion
webhook is refused. Whether it is served, and under which names, `crd_status` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.definitions import acceptance, structural
from kapilite.kinds import CUSTOM_VERBS, Column, Kind, Scale
from kapilite.printers.jsonpath import UnreadableError, UnsupportedError
from kapilite.printers.tables import compile_path
from kapilite.schemas.validation import structure_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.problems import Problem

_STRING = {"type": "string"}
_STRINGS = {"type": "array", "items": _STRING, "nullable": True}
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS = (
    "byte",
    "date",
    "date-time",
    "double",
    "float",
    "int32",
    "int64",
    "password",
)
_VERSIONS_LIMIT = 50
_PATHS = ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
_SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["group", "names", "scope", "versions"],
    "properties": {
        "group": {"type": "string", "minLength": 1},
        "scope": {"type": "string", "enum": ["Cluster", "Namespaced"]},
        "preserveUnknownFields": {"type": "boolean", "nullable": True},
        "names": {
            "type": "object",
            "required": ["kind", "plural"],
            "properties": {
                "kind": {"type": "string", "minLength": 1},
                "listKind": _STRING,
                "plural": _STRING,
                "singular": _STRING,
                "shortNames": _STRINGS,
                "categories": _STRINGS,
            },
        },
        "conversion": {
            "type": "object",
            "nullable": True,
            "properties": {"strategy": {"type": "string", "enum": ["None", "Webhook"]}},
        },
        "versions": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["name", "served", "storage", "schema"],
                "properties": {
                    "name": _STRING,
                    "served": {"type": "boolean"},
                    "storage": {"type": "boolean"},
                    "deprecated": {"type": "boolean"},
                    "deprecationWarning": {"type": "string", "nullable": True},
                    "schema": {
                        "type": "object",
                        "required": ["openAPIV3Schema"],
                        "properties": {"openAPIV3Schema": {"type": "object"}},
                    },
                    "subresources": {
                        "type": "object",
                        "nullable": True,
                        "properties": {
                            "status": {"type": "object", "nullable": True},
                            "scale": {
                                "type": "object",
                                "nullable": True,
                                "required": list(_PATHS[:2]),
                                "properties": dict.fromkeys(_PATHS, _STRING),
                            },
                        },
                    },
                    "selectableFields": {
                        "type": "array",
                        "nullable": True,
                        "items": {
                            "type": "object",
                            "required": ["jsonPath"],
                            "properties": {"jsonPath": _STRING},
                        },
                    },
                    "additionalPrinterColumns": {
                        "type": "array",
                        "nullable": True,
                        "items": {
                            "type": "object",
                            "required": ["name", "type", "jsonPath"],
                            "properties": {
                                "name": {"type": "string", "minLength": 1},
                                "type": {"type": "string", "enum": list(_COLUMN_TYPES)},
                                "jsonPath": _STRING,
                                "priority": {"type": "integer"},
                                "format": {"type": "string", "enum": ["", *_COLUMN_FORMATS]},
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
        for name, value in (
            ("listKind", f"{names['kind']}List"),
            ("singular", names["kind"].lower()),
        ):
            if not names.get(name):
                names[name] = value
        if not crd["spec"].get("conversion"):
            crd["spec"]["conversion"] = {"strategy": "None"}


def problems(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind]
) -> list[Problem]:
    """Everything that keeps this definition from being stored next to `kinds`."""
    spec = crd.get("spec")
    found = [
        p._replace(field=f"spec.{p.field}".rstrip(".")) for p in structure_problems(_SPEC, spec)
    ]
    if found:
        return found  # the rest reads these fields
    assert isinstance(spec, dict)  # noqa: S101 - just validated
    found.extend(_naming(crd, kinds))
    found.extend(_versions(spec))
    if found:
        return found
    if old is not None:
        found.extend(_immutable("spec", spec, old["spec"], ("group",)))
        fixed = ("plural", "kind") if acceptance.is_established(old) else ("plural",)
        found.extend(_immutable("spec.names", spec["names"], old["spec"]["names"], fixed))
        if acceptance.is_established(old):
            found.extend(_immutable("spec", spec, old["spec"], ("scope",)))
        found.extend(acceptance.problems(crd, old))
    for index, version in enumerate(spec["versions"]):
        found.extend(_version(version, f"spec.versions[{index}]"))
    return found


def established(
    crd: dict[str, Any], old: dict[str, Any] | None, kinds: Iterable[Kind] = ()
) -> dict[str, Any]:
    """The status of a definition next to the kinds that are served."""
    return acceptance.status(crd, old, kinds)


def kinds(crd: dict[str, Any]) -> list[Kind]:
    """One kind for each served version; none while its names are not accepted."""
    if not acceptance.is_established(crd):
        return []
    spec = crd["spec"]
    names = crd["status"]["acceptedNames"]
    storage = next(v["name"] for v in spec["versions"] if v["storage"])
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            namespaced=spec["scope"] == "Namespaced",
            list_name=names.get("listKind") or "",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            columns=tuple(map(_column, version.get("additionalPrinterColumns") or ())),
            schema=version["schema"]["openAPIV3Schema"],
            has_status=(version.get("subresources") or {}).get("status") is not None,
            scale=_scale(version),
            selectable=selectable_fields(version),
            verbs=CUSTOM_VERBS,
            storage_version=storage,
            warnings=_warnings(spec, version),
            custom=True,
        )
        for version in spec["versions"]
        if version["served"]
    ]


def _scale(version: dict[str, Any]) -> Scale | None:
    raw = (version.get("subresources") or {}).get("scale")
    if raw is None:
        return None
    spec, status, selector = (
        tuple(raw[path][1:].split(".")) if raw.get(path) else () for path in _PATHS
    )
    return Scale(spec_replicas=spec, status_replicas=status, label_selector=selector)


def _warnings(spec: dict[str, Any], version: dict[str, Any]) -> tuple[str, ...]:
    if not version.get("deprecated"):
        return ()
    name = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
    return (version.get("deprecationWarning") or f"{name} is deprecated",)


def _column(raw: dict[str, Any]) -> Column:
    return Column(
        name=raw["name"],
        type=raw["type"],
        json_path=raw["jsonPath"],
        description=raw.get("description", ""),
        format=raw.get("format", ""),
        priority=raw.get("priority", 0),
    )


_APPROVAL = "api-approved.kubernetes.io"


def _naming(crd: dict[str, Any], kinds: Iterable[Kind]) -> Iterator[Problem]:
    spec, group = crd["spec"], crd["spec"]["group"]
    wanted = f"{spec['names']['plural']}.{group}"
    name = crd["metadata"].get("name")
    if name != wanted:
        yield problem.invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')
    if names.subdomain(group):
        yield problem.invalid("spec.group", group, names.SUBDOMAIN_TEXT)
    elif "." not in group:
        yield problem.invalid("spec.group", group, "should be a domain with at least one dot")
    yield from _names(spec["names"])
    if any(not kind.custom and kind.group == group for kind in kinds):
        yield problem.forbidden("spec.group", "is served by this server itself")
    elif group.endswith((".k8s.io", ".kubernetes.io")):
        annotations = crd["metadata"].get("annotations") or {}
        if not annotations.get(_APPROVAL):
            why = (
                f'protected groups must have approval annotation "{_APPROVAL}", see '
                "https://github.com/kubernetes/enhancements/pull/1111"
            )
            yield problem.required(f"metadata.annotations[{_APPROVAL}]", why)
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield problem.invalid("spec.preserveUnknownFields", True, why)
    if (spec.get("conversion") or {}).get("strategy") == "Webhook":
        why = "this server calls no conversion webhooks: all versions must have the same fields"
        yield problem.forbidden("spec.conversion.strategy", why)


def _names(given: dict[str, Any]) -> Iterator[Problem]:
    path = "spec.names"
    for field in ("plural", "singular"):
        name = given.get(field) or ""
        yield from problem.unfit(f"{path}.{field}", name, names.label_1035(name))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(given.get(field) or ()):
            yield from problem.unfit(f"{path}.{field}[{index}]", name, names.label_1035(name))
    for field in ("kind", "listKind"):
        if given.get(field) and not names.is_label_1035(given[field].lower()):
            why = f"may have mixed case, but should otherwise match: {names.LABEL_1035_TEXT}"
            yield problem.invalid(f"{path}.{field}", given[field], why)
    if given["kind"] == given.get("listKind"):
        why = "kind and listKind may not be the same"
        yield problem.invalid(f"{path}.listKind", given["kind"], why)


def _versions(spec: dict[str, Any]) -> Iterator[Problem]:
    versions = spec["versions"]
    if len(versions) > _VERSIONS_LIMIT:
        # Each is a kind of its own in discovery and in the OpenAPI documents.
        yield problem.too_many("spec.versions", len(versions), _VERSIONS_LIMIT)
        return
    for index, version in enumerate(versions):
        name = version["name"]
        yield from problem.unfit(f"spec.versions[{index}].name", name, names.label_1035(name))
    if sum(version["storage"] for version in versions) != 1:
        yield problem.invalid(
            "spec.versions", "", "must have exactly one version marked as storage version"
        )
    seen = [version["name"] for version in versions]
    for name in sorted({name for name in seen if seen.count(name) > 1}):
        yield problem.invalid("spec.versions", name, "must contain unique version names")


def _version(version: dict[str, Any], path: str) -> Iterator[Problem]:
    yield from _columns(version, f"{path}.additionalPrinterColumns")
    warning = version.get("deprecationWarning")
    field = f"{path}.deprecationWarning"
    if warning is not None and not version.get("deprecated"):
        yield problem.invalid(field, warning, "can only be set for deprecated versions")
    elif warning is not None and (not warning or len(warning) > 256 or not warning.isprintable()):
        why = "must be 1 to 256 printable characters"
        yield problem.invalid(field, warning, why)
    yield from _scale_paths(version, f"{path}.subresources.scale")
    schema = version["schema"]["openAPIV3Schema"]
    wrong = list(structural.problems(schema, f"{path}.schema.openAPIV3Schema"))
    yield from wrong
    if not wrong:
        yield from _selectable(version, schema, f"{path}.selectableFields")


def _scale_paths(version: dict[str, Any], path: str) -> Iterator[Problem]:
    raw = (version.get("subresources") or {}).get("scale") or {}
    for name, parents in zip(
        _PATHS, ((".spec.",), (".status.",), (".spec.", ".status.")), strict=True
    ):
        value = raw.get(name)
        if value is None or (not value and name == _PATHS[2]):
            continue
        field = f"{path}.{name}"
        if not value:
            yield problem.required(field)
        elif not value.startswith("."):
            yield problem.invalid(field, value, "must be a simple json path starting with .")
        elif not value.startswith(parents) or "" in value[1:].split("."):
            under = " or ".join(parent.rstrip(".") for parent in parents)
            either = "either " if len(parents) > 1 else ""
            yield problem.invalid(field, value, f"should be a json path under {either}{under}")


def _selectable(version: dict[str, Any], schema: dict[str, Any], path: str) -> Iterator[Problem]:
    fields = version.get("selectableFields") or ()
    if len(fields) > 8:
        yield problem.too_many(path, len(fields), 8)
    seen: set[str] = set()
    for index, field in enumerate(fields):
        where, text = f"{path}[{index}].jsonPath", field["jsonPath"]
        if text in seen:
            yield problem.duplicate(where, text)
        seen.add(text)
        found: Any = schema
        for name in text[1:].split("."):
            found = (found.get("properties") or {}).get(name) if isinstance(found, dict) else None
        if not text.startswith("."):
            yield problem.invalid(where, text, "must be a simple json path starting with .")
        elif text.startswith(".metadata."):
            yield problem.invalid(where, text, "must not point to fields in metadata")
        elif found is None:
            yield problem.invalid(
                where, text, "is an invalid path: does not refer to a valid field"
            )
        elif found.get("type") not in ("string", "boolean", "integer"):
            why = "must point to a field of type string, boolean or integer"
            yield problem.invalid(where, text, why)


def selectable_fields(version: dict[str, Any]) -> tuple[str, ...]:
    """The fields besides metadata that lists of this version can be selected by."""
    return tuple(field["jsonPath"][1:] for field in version.get("selectableFields") or ())


def _columns(version: dict[str, Any], path: str) -> Iterator[Problem]:
    for index, column in enumerate(version.get("additionalPrinterColumns") or ()):
        where, text = f"{path}[{index}].JSONPath", column["jsonPath"]
        if not text:
            yield problem.required(where)
        elif not text.startswith("."):
            yield problem.invalid(where, text, "must be a simple json path starting with .")
        else:
            try:
                compile_path(text)
            except UnsupportedError as error:
                yield problem.invalid(where, text, str(error))
            except UnreadableError:
                pass  # Kubernetes accepts the definition, and leaves columns out.


def _immutable(
    path: str, new: dict[str, Any], old: dict[str, Any], fields: Iterable[str]
) -> Iterator[Problem]:
    for field in fields:
        if new[field] != old[field]:
            yield problem.invalid(f"{path}.{field}", new[field], "field is immutable")
