"""The page of kinds and their fields, from the definitions that a cluster gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from laneway.api.crds import crds
from laneway.api.fields import ONE_LINE
from reference.markdown import code, page, table

Schema: TypeAlias = dict[str, Any]
Row: TypeAlias = tuple[str, str, str]

_INTRODUCTION = """
The kinds of `devices.harvesterhci.io/v1beta1`. `laneway crds` prints their definitions, and
`kubectl explain vgpudevice.status` one field of a cluster. *Required* is what the API server
requires; a field that it does not require can still be refused by
[admission](../explanation/admission.md).
"""
_CONDITIONS = """
## Conditions

`status.conditions` is the same on all kinds that have it. [Reasons](reasons.md) lists every
`reason`.
"""
_OWN = ("apiVersion", "kind", "metadata")


def kinds() -> str:
    """Every kind with all fields."""
    found = [(crd, crd["spec"]["versions"][0]) for crd in crds()]
    shared = next(filter(None, (_conditions_of(version) for _, version in found)))
    return page(
        "API",
        _INTRODUCTION,
        table(("kind", "scope", "short names"), (_listed(crd) for crd, _ in found)),
        *(_section(crd, version) for crd, version in found),
        _CONDITIONS,
        table(("field", "type", "meaning"), _fields(shared["items"], "")),
    )


def _conditions_of(version: Schema) -> Schema | None:
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    found: Schema | None = properties.get("status", {}).get("properties", {}).get("conditions")
    return found


def _listed(crd: Schema) -> tuple[str, str, str]:
    names = crd["spec"]["names"]
    short = ", ".join(map(code, names.get("shortNames", ())))
    return f"[`{names['kind']}`](#{names['kind'].lower()})", crd["spec"]["scope"].lower(), short


def _section(crd: Schema, version: Schema) -> str:
    names = crd["spec"]["names"]
    schema = version["schema"]["openAPIV3Schema"]
    columns = [
        (one["name"], "wide" if one.get("priority") else "always", code(one["jsonPath"]))
        for one in version["additionalPrinterColumns"]
    ]
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    parts = [
        f"## {names['kind']}",
        schema.get("description", ""),
        f"`kubectl get {names['plural']}`",
        table(("field", "type", "meaning"), _fields(schema, "")),
        "\n".join(f"- {rule}" for rule in rules),
        "Columns:",
        table(("column", "shown", "from"), columns),
    ]
    return "\n\n".join(part for part in parts if part)


def _fields(schema: Schema, path: str) -> Iterator[Row]:
    required = schema.get("required", ())
    for name, one in schema.get("properties", {}).items():
        if not path and name in _OWN:
            continue
        inner = f"{path}.{name}" if path else name
        if inner == "status.conditions":
            yield code(inner), "list of objects", "See [Conditions](#conditions)."
            continue
        yield from _field(inner, one, required=name in required)


def _field(path: str, schema: Schema, *, required: bool) -> Iterator[Row]:
    item = schema.get("items") or schema.get("additionalProperties")
    yield code(path), _type(schema), _meaning(schema, required=required)
    if "items" in schema:
        path += "[]"
    elif item:
        path += ".NAME"
    yield from _fields(item if isinstance(item, dict) else schema, path)


def _type(schema: Schema) -> str:
    if "items" in schema:
        return f"list of {_plural(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"map to {_plural(schema['additionalProperties'])}"
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    return str(schema.get("format") if schema.get("format") == "date-time" else schema["type"])


def _plural(schema: Schema) -> str:
    return f"{_type(schema)}s"


def _meaning(schema: Schema, *, required: bool) -> str:
    parts = [schema.get("description", "").rstrip()]
    if required:
        parts.append("Required.")
    if "enum" in schema:
        values = [code(str(value)) if value != "" else "empty" for value in schema["enum"]]
        parts.append(f"One of {', '.join(values)}.")
    if "pattern" in schema:
        text = f"Pattern {code(schema['pattern'])}."
        parts.append("One line." if schema["pattern"] == ONE_LINE else text)
    for key, text in (("minimum", "At least"), ("maximum", "At most")):
        if key in schema:
            parts.append(f"{text} {schema[key]}.")
    rules = [rule["message"] for rule in schema.get("x-kubernetes-validations", ())]
    parts += ["Immutable." if "immutable" in rule else f"Rule: {rule}." for rule in rules]
    return " ".join(filter(None, parts))
