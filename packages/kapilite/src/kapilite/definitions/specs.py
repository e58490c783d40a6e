"""What is wrong with the spec of a CustomResourceDefinition.

The spec has been decoded, so its fields have their types. What all versions have alike is judged
once, and said of the place where Kubernetes keeps it: `spec.validation` for the schema of a
definition with one version, as on a real server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite import names
from kapilite import problems as problem
from kapilite.definitions import budgets, shape, structural
from kapilite.printers.jsonpath import UnreadableError, UnsupportedError
from kapilite.printers.tables import compile_path
from kapilite.schemas.comparing import same

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kapilite.problems import Problem

Object = dict[str, Any]

VERSIONS_LIMIT = 50
"""Each is a kind of its own in discovery and in the OpenAPI documents."""
SELECTABLE_LIMIT = 8

_SCOPES = ("Cluster", "Namespaced")
_STRATEGIES = ("None", "Webhook")
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
_SELECTABLE_TYPES = ("string", "boolean", "integer")
_SHARED = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
"""What versions may have in common, and where in the spec it is then."""


def problems(spec: Object, before: Object | None = None) -> Iterator[Problem]:
    """Everything that is wrong with a spec; of the one `before`, only its schemas matter."""
    versions = spec.get("versions") or []
    if len(versions) > VERSIONS_LIMIT:
        yield problem.too_many("spec.versions", len(versions), VERSIONS_LIMIT)
        return
    yield from _group(spec["group"])
    yield from _one_of("spec.scope", spec["scope"], _SCOPES)
    kept = {one["name"]: _schema(one) for one in (before or {}).get("versions") or ()}
    yield from _versions(versions, kept)
    yield from _names(spec["names"])
    yield from _conversion(spec.get("conversion") or {})
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in "
            "spec.versions[*].schema instead"
        )
        yield problem.invalid("spec.preserveUnknownFields", True, why)
        strategy = (spec.get("conversion") or {}).get("strategy")
        if strategy != "None":
            why = "must be None if spec.preserveUnknownFields is true"
            yield problem.invalid("spec.conversion.strategy", strategy, why)


def _group(group: str) -> Iterator[Problem]:
    if not group:
        yield problem.required("spec.group")
    elif wrong := names.subdomain(group):
        yield problem.invalid("spec.group", group, ",".join(wrong))
    elif "." not in group:
        yield problem.invalid("spec.group", group, "should be a domain with at least one dot")


def _one_of(field: str, value: str, allowed: tuple[str, ...]) -> Iterator[Problem]:
    if not value:
        yield problem.required(field)
    elif value not in allowed:
        yield problem.not_supported(field, value, allowed)


def _names(given: Object) -> Iterator[Problem]:
    path = "spec.names"
    for field in ("plural", "singular", "kind", "listKind"):
        name = given.get(field) or ""
        if not name:
            yield problem.required(f"{path}.{field}")
        elif wrong := names.label_1035(name.lower() if "ind" in field else name):
            mixed = "may have mixed case, but should otherwise match: " if "ind" in field else ""
            yield problem.invalid(f"{path}.{field}", name, mixed + ",".join(wrong))
    for field in ("shortNames", "categories"):
        for index, name in enumerate(given.get(field) or ()):
            if wrong := names.label_1035(name):
                yield problem.invalid(f"{path}.{field}[{index}]", name, ",".join(wrong))
    if given["kind"] and given["kind"] == given.get("listKind"):
        why = "kind and listKind may not be the same"
        yield problem.invalid(f"{path}.listKind", given["kind"], why)


def _conversion(conversion: Object) -> Iterator[Problem]:
    path = "spec.conversion"
    strategy = conversion.get("strategy", "")
    yield from _one_of(f"{path}.strategy", strategy, _STRATEGIES)
    webhook = conversion.get("webhook") or {}
    if strategy == "Webhook":
        why = "this server calls no conversion webhooks: all versions must have the same fields"
        yield problem.forbidden(f"{path}.strategy", why)
        return
    for field, name in (
        ("webhookClientConfig", "clientConfig"),
        ("conversionReviewVersions", "conversionReviewVersions"),
    ):
        if webhook.get(name) not in (None, []):
            why = "should not be set when strategy is not set to Webhook"
            yield problem.forbidden(f"{path}.{field}", why)


class _Part(NamedTuple):
    """A part of versions: of one of them, or where all have it alike, of the spec."""

    value: Any
    path: str
    version: Object | None
    """None: of all of them."""


def _parts(versions: list[Object], key: str) -> list[_Part]:
    if _is_shared(versions, key):
        path = f"spec.{_SHARED[key]}"
        return [_Part(versions[0].get(key), path, None)] if versions else []
    return [
        _Part(version.get(key), f"spec.versions[{index}].{key}", version)
        for index, version in enumerate(versions)
    ]


def _is_shared(versions: list[Object], key: str) -> bool:
    first = versions[0].get(key) if versions else None
    return all(same(version.get(key), first) for version in versions)


def _versions(versions: list[Object], kept: Mapping[str, Object | None]) -> Iterator[Problem]:
    for index, version in enumerate(versions):
        name = version["name"]
        if wrong := names.label_1035(name):
            yield problem.invalid(f"spec.versions[{index}].name", name, ",".join(wrong))
            if index == 0 and name:
                yield problem.invalid("spec.version", name, ",".join(wrong))
        yield from _deprecation(version, f"spec.versions[{index}].deprecationWarning")
        if _schema(version) is None:
            yield problem.required(f"spec.versions[{index}].schema.openAPIV3Schema")
    seen = [version["name"] for version in versions]
    if len(set(seen)) < len(seen):
        yield problem.invalid("spec.versions", seen, "must contain unique version names")
    if sum(version["storage"] for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield problem.invalid("spec.versions", seen, why)
    yield from _schemas(versions, kept)
    for part in _parts(versions, "subresources"):
        yield from _scale((part.value or {}).get("scale"), f"{part.path}.scale")
    for part in _parts(versions, "additionalPrinterColumns"):
        for index, column in enumerate(part.value or ()):
            yield from _column(column, f"{part.path}[{index}]")
    for part in _parts(versions, "selectableFields"):
        if part.value:
            yield from _selectable(part, versions)


def _schemas(versions: list[Object], kept: Mapping[str, Object | None]) -> Iterator[Problem]:
    if too_long := list(budgets.texts(versions, "spec.versions")):
        yield from too_long
        return
    for part in _parts(versions, "schema"):
        schema = (part.value or {}).get("openAPIV3Schema")
        if schema is not None:
            of = versions if part.version is None else [part.version]
            has_status = any(_has_status(versions, version) for version in of)
            where = f"{part.path}.openAPIV3Schema"
            is_kept = all(kept.get(version["name"]) == schema for version in of)
            yield from structural.problems(schema, where, has_status=has_status, is_kept=is_kept)


def _schema(version: Object) -> Object | None:
    found: Object | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return found


def _has_status(versions: list[Object], version: Object) -> bool:
    """Whether a version has a status subresource; of two with one name the first counts."""
    first = next(one for one in versions if one["name"] == version["name"])
    return (first.get("subresources") or {}).get("status") is not None


def _deprecation(version: Object, field: str) -> Iterator[Problem]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield problem.invalid(field, warning, "can only be set for deprecated versions")
        return
    if len(warning.encode()) > 256:
        yield problem.invalid(field, warning, "must be <= 256 characters long")
    if not warning:
        yield problem.invalid(field, warning, "must not be an empty string")
    if not warning.isprintable():
        yield problem.invalid(field, warning, "must only contain printable UTF-8 characters")


_SCALE = (
    ("specReplicasPath", (".spec.",), ".spec"),
    ("statusReplicasPath", (".status.",), ".status"),
    ("labelSelectorPath", (".spec.", ".status."), "either .spec or .status"),
)


def _scale(scale: Object | None, path: str) -> Iterator[Problem]:
    for name, parents, under in _SCALE if scale is not None else ():
        value, field = (scale or {}).get(name), f"{path}.{name}"
        if not value:
            if name != "labelSelectorPath":
                yield problem.required(field)
        elif not value.startswith("."):
            yield problem.invalid(field, value, "must be a simple json path starting with .")
        elif not value.startswith(parents):
            yield problem.invalid(field, value, f"should be a json path under {under}")


def _column(column: Object, path: str) -> Iterator[Problem]:
    if not column["name"]:
        yield problem.required(f"{path}.name")
    types = f"must be one of {','.join(_COLUMN_TYPES)}"
    if not column["type"]:
        yield problem.required(f"{path}.type", types)
    elif column["type"] not in _COLUMN_TYPES:
        yield problem.invalid(f"{path}.type", column["type"], types)
    form = column.get("format")
    if form and form not in _COLUMN_FORMATS:
        why = f"must be one of {','.join(_COLUMN_FORMATS)}"
        yield problem.invalid(f"{path}.format", form, why)
    text, field = column["jsonPath"], f"{path}.JSONPath"
    if not text:
        yield problem.required(field)
    elif not text.startswith("."):
        yield problem.invalid(field, text, "must be a simple json path starting with .")
    else:
        try:
            compile_path(text)
        except UnsupportedError as error:
            yield problem.invalid(field, text, str(error))
        except UnreadableError:
            pass  # Kubernetes accepts the definition, and leaves columns out.


def _selectable(part: _Part, versions: list[Object]) -> Iterator[Problem]:
    of_all = _is_shared(versions, "schema")
    schema = _schema(part.version or versions[0])
    if of_all != (part.version is None) or schema is None:
        why = "may only be set for all versions when all versions have the same schema"
        yield problem.invalid(part.path, "", why)
        return
    if shape.unread(schema):
        return  # which is said of the schema
    seen: set[str] = set()
    for index, field in enumerate(part.value):
        where, text = f"{part.path}[{index}].jsonPath", field["jsonPath"]
        if not text:
            yield problem.required(where)
            continue
        try:
            found = _at(schema, text)
        except ValueError as error:
            yield problem.invalid(where, text, f"is an invalid path: {error}")
            continue
        if text.startswith(".metadata.") or text == ".metadata":
            yield problem.invalid(where, text, "must not point to fields in metadata")
        if found.get("type") not in _SELECTABLE_TYPES:
            why = (
                "must point to a field of type string, boolean or integer. Enum string fields and "
                "strings with formats are allowed."
            )
            yield problem.invalid(where, text, why)
        if text in seen:
            yield problem.duplicate(where, text)
        seen.add(text)
    if len(seen) > SELECTABLE_LIMIT:
        yield problem.too_many(part.path, len(seen), SELECTABLE_LIMIT)


def _at(schema: Object, path: str) -> Object:
    """The schema of the field that a path names; ValueError where there is none."""
    if "[" in path or "]" in path:
        raise ValueError("array notation is not allowed")
    first, *fields = path.split(".")
    if first or not fields:
        raise ValueError(f"expected [ or . but got: {first}")
    for name in fields:
        if not name and name is fields[-1]:
            raise ValueError("unexpected end of JSON path")
        properties, extra = schema.get("properties"), schema.get("additionalProperties")
        if properties and name in properties:
            schema = properties[name]
        elif not properties and name and isinstance(extra, dict):
            schema = extra
        else:
            raise ValueError("does not refer to a valid field")
    return schema
