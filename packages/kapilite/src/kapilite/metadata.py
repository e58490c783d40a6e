"""ObjectMeta: what the client may say, what the server decides, and the rules for both.

The server owns uid, creationTimestamp, generation, resourceVersion and the deletion fields: what
a client sends there is replaced, never trusted. managedFields are the business of `apply`. Rules
and texts are those of Kubernetes.
"""

from __future__ import annotations

import random
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kapilite import names
from kapilite import problems as problem
from kapilite.errors import Undecodable
from kapilite.schemas.object_meta import SCHEMA
from kapilite.schemas.validation import problems as schema_problems
from kubebasics.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.kinds import Kind
    from kapilite.problems import Problem

_CLIENT = ("labels", "annotations", "ownerReferences", "finalizers")
_SERVER = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "generateName",
    "selfLink",
)
_FINALIZERS = ("foregroundDeletion", "kubernetes", "orphan")
_GENERIC = ("admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io")
ANNOTATIONS_LIMIT = 256 * 1024
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


def now() -> str:
    """The time of a change."""
    return timestamp(datetime.now(UTC))


def decode(kind: Kind, obj: dict[str, Any]) -> dict[str, Any]:
    """The metadata a client sent, without nulls; refused when a field has the wrong type."""
    meta = {} if obj.get("metadata") is None else obj["metadata"]
    wrong = [p for p in schema_problems(SCHEMA, meta) if p.reason == "FieldValueTypeInvalid"]
    if wrong:
        what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
        raise Undecodable(f"{what}: metadata.{wrong[0].field}: {wrong[0].message}")
    obj["metadata"] = {k: v for k, v in meta.items() if v is not None}
    for field in _CLIENT:
        if not obj["metadata"].get(field, True):
            del obj["metadata"][field]
    result: dict[str, Any] = obj["metadata"]
    return result


def unknown(meta: dict[str, Any]) -> list[str]:
    """Remove fields that ObjectMeta does not have; their paths."""
    names = [name for name in meta if name not in SCHEMA["properties"]]
    for name in names:
        del meta[name]
    return [f"metadata.{name}" for name in names]


def for_create(meta: dict[str, Any], *, generation: bool) -> None:
    """Fill in what the server decides about a new object."""
    for field in _SERVER:
        if field != "generateName":
            meta.pop(field, None)
    if not meta.get("name") and meta.get("generateName"):
        # The name must fit a label value, the suffix included.
        suffix = "".join(random.choices(_SUFFIX, k=5))  # noqa: S311 - not a secret
        meta["name"] = meta["generateName"][:58] + suffix
    meta["uid"] = str(uuid.uuid4())
    meta["creationTimestamp"] = now()
    if generation:
        meta["generation"] = 1


def for_update(meta: dict[str, Any], old: dict[str, Any]) -> None:
    """Restore what the server decides from the object being replaced."""
    for field in _SERVER:
        if field in old:
            meta[field] = old[field]
        else:
            meta.pop(field, None)


def problems(
    kind: Kind, meta: dict[str, Any], old: dict[str, Any] | None = None
) -> Iterator[Problem]:
    """What is wrong with the metadata of an object to be stored."""
    yield from _name(kind, meta)
    yield from _labels(meta.get("labels") or {})
    yield from _annotations(meta.get("annotations") or {})
    for found in schema_problems(SCHEMA, meta):
        yield found._replace(field=f"metadata.{found.field}")
    finalizers = meta.get("finalizers") or []
    for index, name in enumerate(finalizers):
        field = f"metadata.finalizers[{index}]"
        yield from problem.unfit(field, name, names.qualified_name(name))
        if "/" not in name and name not in _FINALIZERS and not _is_generic(kind):
            detail = "name is neither a standard finalizer name nor is it fully qualified"
            yield problem.invalid(field, name, detail)
    if old and old.get("deletionTimestamp"):
        added = [name for name in finalizers if name not in (old.get("finalizers") or ())]
        if added:
            quoted = ", ".join(f'"{name}"' for name in added)
            yield problem.forbidden(
                "metadata.finalizers",
                "no new finalizers can be added if the object is being deleted, "
                f"found new finalizers []string{{{quoted}}}",
            )
    if sum(bool(owner.get("controller")) for owner in meta.get("ownerReferences") or ()) > 1:
        yield problem.invalid(
            "metadata.ownerReferences",
            "",
            "Only one reference can have Controller set to true.",
        )


def _is_generic(kind: Kind) -> bool:
    """Whether any qualified name may be a finalizer, of one part also."""
    return kind.custom or kind.group in _GENERIC


def _name(kind: Kind, meta: dict[str, Any]) -> Iterator[Problem]:
    name = meta.get("name")
    if not name:
        yield problem.required("metadata.name", "name or generateName is required")
        return
    field = "metadata.name"
    rule = names.subdomain
    if kind.resource == "namespaces":
        rule = names.label
    elif kind.group == "rbac.authorization.k8s.io":
        rule = names.segment
    yield from problem.unfit(field, name, rule(name))


def _labels(labels: dict[str, str]) -> Iterator[Problem]:
    field = "metadata.labels"
    for key, value in labels.items():
        yield from problem.unfit(field, key, names.qualified_name(key))
        yield from problem.unfit(field, value, names.label_value(value))


def _annotations(annotations: dict[str, str]) -> Iterator[Problem]:
    field = "metadata.annotations"
    for key in annotations:
        yield from problem.unfit(field, key.lower(), names.qualified_name(key.lower()))
    if sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items()) > ANNOTATIONS_LIMIT:
        yield problem.too_long(field, ANNOTATIONS_LIMIT)
