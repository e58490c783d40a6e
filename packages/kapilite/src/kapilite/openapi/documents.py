"""The served kinds as OpenAPI documents, so that `kubectl explain` and client tools know them.

`v3` describes one group version, as clients have read it since Kubernetes 1.27; `v2` puts
everything into one document for older ones. Both name, for every definition and operation, the
kind it is about: that is how clients find their way. Every PATCH declares `fieldValidation`, by
which kubectl decides that the server checks for unknown fields and that it need not do so itself.

The schema of a kind is passed on as it is, with the standard fields filled in.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import msgspec

from kapilite.errors import ApiError
from kapilite.kinds import Kind
from kapilite.openapi import meta, structs

Json = dict[str, Any]

_INFO = {"title": "Kubernetes", "version": "v1"}
_BODIES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_WRITE_PARAMETERS = {
    "dryRun": "With `All`, the request is checked and answered but nothing is stored.",
    "fieldManager": "Name of the client, recorded as the manager of the fields it sets.",
    "fieldValidation": "What to do about unknown and duplicate fields: Ignore, Warn or Strict.",
}
_LIST_PARAMETERS = {
    "labelSelector": "Only objects whose labels this selector chooses.",
    "fieldSelector": "Only objects whose fields this selector chooses.",
    "limit": "At most so many objects in one answer.",
    "continue": "The token of the previous answer, to go on where it ended.",
    "resourceVersion": "The version at which to list, or after which to watch.",
    "watch": "Stream the changes instead of a list.",
    "allowWatchBookmarks": "Send bookmarks, which tell the version that a watch has reached.",
    "timeoutSeconds": "End the watch after so many seconds.",
}
_ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_NOT_IN_V2 = frozenset({"nullable", "oneOf", "anyOf", "not", "default"})


def v3_index(kinds: Iterable[Kind]) -> Json:
    """The document of `/openapi/v3`: where each group version is described.

    The hash in an address changes with the document, so that clients may keep what they read.
    """
    found: dict[str, list[Kind]] = {}
    for kind in kinds:
        found.setdefault(_root(kind.group, kind.version), []).append(kind)
    return {
        "paths": {
            root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={_hash(described)}"}
            for root, described in found.items()
        }
    }


def v3(kinds: Iterable[Kind], group: str, version: str) -> Json:
    """The document of one group version."""
    chosen = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not chosen:
        raise ApiError(404, "NotFound", "the server could not find the requested resource")
    schemas: Json = dict(meta.schemas("#/components/schemas/"))
    paths: Json = {}
    for kind in chosen:
        _define(kind, "#/components/schemas/", schemas)
        paths |= _paths(kind)
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": paths,
        "components": {"schemas": schemas},
    }


def v2(kinds: Iterable[Kind]) -> Json:
    """The document of `/openapi/v2`: all kinds at once, with what Swagger 2.0 can express."""
    definitions: Json = dict(meta.schemas("#/definitions/"))
    paths: Json = {}
    for kind in kinds:
        _define(kind, "#/definitions/", definitions)
        paths |= _paths(kind)
    return {
        "swagger": "2.0",
        "info": _INFO,
        "paths": {path: _swagger_path(item) for path, item in paths.items()},
        "definitions": {name: _swagger_schema(schema) for name, schema in definitions.items()},
    }


def definition_name(kind: Kind) -> str:
    """`com.harvesterhci.devices.v1beta1.PCIDevice`, as a cluster names it."""
    if kind.custom:
        return f"{'.'.join(reversed(kind.group.split('.')))}.{kind.version}.{kind.kind}"
    group = kind.group.split(".")[0] or "core"
    return structs.definition_name(f"{group}.{kind.version}.{kind.kind}")


def _define(kind: Kind, prefix: str, found: Json) -> None:
    """Add the definitions of a kind, of its list and of what it is made of."""
    name = definition_name(kind)
    schema = structs.described(kind.schema or dict(_ANYTHING), prefix, found)
    schema["properties"] = {
        **(schema.get("properties") or {}),
        **meta.standard_fields(prefix, "ObjectMeta"),
    }
    schema["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    item = {"$ref": prefix + name}
    found[name] = schema
    found[f"{name}List"] = {
        "description": f"A list of {kind.kind} objects.",
        "type": "object",
        "required": ["items"],
        "properties": {
            **meta.standard_fields(prefix, "ListMeta"),
            "items": {"description": "The objects.", "type": "array", "items": item},
        },
        "x-kubernetes-group-version-kind": [_gvk(kind) | {"kind": kind.list_kind}],
    }


def _paths(kind: Kind) -> Json:
    root = f"/{_root(kind.group, kind.version)}"
    namespace = "/namespaces/{namespace}" if kind.namespaced else ""
    collection = f"{root}{namespace}/{kind.plural}"
    one = f"{collection}/{{name}}"
    scope = [_in_path("namespace")] if kind.namespaced else []
    named = [*scope, _in_path("name")]
    paths = {
        collection: {
            "parameters": scope,
            "get": _operation(kind, "list", _LIST_PARAMETERS, of_list=True),
            "post": _operation(kind, "post", _WRITE_PARAMETERS, body=True),
            "delete": _operation(kind, "deletecollection", _LIST_PARAMETERS),
        },
        one: {
            "parameters": named,
            "get": _operation(kind, "get", {}),
            "put": _operation(kind, "put", _WRITE_PARAMETERS, body=True),
            "patch": _patch(kind),
            "delete": _operation(kind, "delete", {}),
        },
    }
    if not kind.stored:
        return {collection: {key: paths[collection][key] for key in ("parameters", "post")}}
    if "deletecollection" not in kind.verbs:
        del paths[collection]["delete"]
    if kind.namespaced:
        everywhere = _operation(kind, "list", _LIST_PARAMETERS, of_list=True)
        paths[f"{root}/{kind.plural}"] = {"parameters": [], "get": everywhere}
    parts = {"status": kind.has_status, "scale": kind.scale is not None}
    for name in (name for name, exists in parts.items() if exists):
        paths[f"{one}/{name}"] = {
            "parameters": named,
            "get": _operation(kind, "get", {}),
            "put": _operation(kind, "put", _WRITE_PARAMETERS, body=True),
            "patch": _patch(kind),
        }
    for name in kind.subresources:
        method = "put" if name == "finalize" else "post"
        operation = _operation(kind, method, _WRITE_PARAMETERS, body=True)
        paths[f"{one}/{name}"] = {"parameters": named, method: operation}
    return paths


def _operation(
    kind: Kind,
    action: str,
    parameters: dict[str, str],
    *,
    body: bool = False,
    of_list: bool = False,
) -> Json:
    name = definition_name(kind) + ("List" if of_list else "")
    content = {"application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}}}
    found: Json = {
        "parameters": [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in parameters.items()
        ],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _gvk(kind),
    }
    if body:
        found["requestBody"] = {"content": content, "required": True}
    return found


def _patch(kind: Kind) -> Json:
    force = {"force": "Take over fields that other managers own; for apply patches only."}
    operation = _operation(kind, "patch", _WRITE_PARAMETERS | force)
    content = {media: {"schema": {"type": "object"}} for media in _BODIES.values()}
    return operation | {"requestBody": {"content": content, "required": True}}


def _in_path(name: str) -> Json:
    text = {"name": "Name of the object.", "namespace": "Namespace of the object."}[name]
    schema = {"type": "string"}
    return {"name": name, "in": "path", "required": True, "description": text, "schema": schema}


def _swagger_path(item: Json) -> Json:
    found: Json = {}
    for method, operation in item.items():
        if method == "parameters":
            found[method] = [_swagger_parameter(parameter) for parameter in operation]
            continue
        parameters = [_swagger_parameter(parameter) for parameter in operation["parameters"]]
        if "requestBody" in operation:
            parameters.append(
                {"name": "body", "in": "body", "required": True, "schema": {"type": "object"}}
            )
        kept = {key: value for key, value in operation.items() if key.startswith("x-")}
        answer = {"200": {"description": "OK"}}
        found[method] = kept | {"parameters": parameters, "responses": answer}
        found[method] |= {"produces": ["application/json"]}
    return found


def _swagger_parameter(parameter: Json) -> Json:
    flat: Json = {key: value for key, value in parameter.items() if key != "schema"}
    flat.update(parameter["schema"])
    return flat


def _swagger_schema(schema: Any) -> Any:
    """Without what Swagger 2.0 lacks; a property may be named like a keyword, so those stay."""
    if not isinstance(schema, dict):
        return schema
    found: Json = {}
    for key, value in schema.items():
        if key in _NOT_IN_V2:
            continue
        if key == "properties":
            found[key] = {name: _swagger_schema(sub) for name, sub in value.items()}
        elif key == "allOf" and len(value) == 1 and "$ref" in value[0]:
            found["$ref"] = value[0]["$ref"]  # next to its description, as Kubernetes has it
        elif key == "allOf":
            found[key] = [_swagger_schema(sub) for sub in value]
        elif key in {"items", "additionalProperties"}:
            found[key] = _swagger_schema(value)
        else:
            found[key] = value
    if found.get("x-kubernetes-preserve-unknown-fields") and not found.get("properties"):
        found.pop("items", None)
    return found


def _gvk(kind: Kind) -> dict[str, str]:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _hash(kinds: list[Kind]) -> str:
    return hashlib.sha256(msgspec.json.encode(kinds, order="sorted")).hexdigest()[:32].upper()
