"""The structs of built-in kinds as definitions of their own, which refer to each other.

Within the server the schema of a kind is one tree. Written out like that, the five kinds that hold
a pod would repeat its hundred structs five times; as definitions each is there once, under the
name that a cluster gives it.
"""

from __future__ import annotations

from typing import Any

from kapilite.builtin import schemas
from kapilite.builtin.schemas import FORMAT, REQUIRED, STRUCT, VALUES

Json = dict[str, Any]

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_SPECIAL = {
    "IntOrString": "io.k8s.apimachinery.pkg.util.intstr.IntOrString",
    "MicroTime": f"{_META}.MicroTime",
    "Quantity": "io.k8s.apimachinery.pkg.api.resource.Quantity",
    "Time": f"{_META}.Time",
}
_PACKAGES = {
    "meta.v1": _META,
    "apiextensions.v1": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
}
_OF_THE_FIELD = ("description", "default", "x-kubernetes-patch-strategy")


def definition_name(struct: str) -> str:
    """`io.k8s.api.core.v1.PodSpec` of `core.v1.PodSpec`."""
    if struct in _SPECIAL:
        return _SPECIAL[struct]
    package, _, name = struct.rpartition(".")
    return f"{_PACKAGES.get(package, f'io.k8s.api.{package}')}.{name}"


def described(schema: Json, prefix: str, found: Json) -> Json:
    """The schema with references in place of structs; their definitions are added to `found`."""
    made: Json = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: _member(sub, prefix, found) for name, sub in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            made[key] = _member(value, prefix, found)
        elif key == REQUIRED:
            made["required"] = value
        elif key == FORMAT:
            made["format"] = value
        elif key == VALUES:
            made["enum"] = value
        elif key != STRUCT:
            made[key] = value
    return made


def _member(schema: Json, prefix: str, found: Json) -> Json:
    struct = schema.get(STRUCT)
    if struct is None:
        return described(schema, prefix, found)
    name = definition_name(struct)
    if name not in found:
        found[name] = {}  # so that a struct that holds itself comes to an end
        found[name] = described(schemas.of(struct), prefix, found)
    own = {key: schema[key] for key in _OF_THE_FIELD if key in schema}
    reference = {"$ref": prefix + name}
    return own | {"allOf": [reference]} if own else reference
