"""What a mutating webhook's patch makes of an object.

A patch that does not apply, or leaves what cannot be read as an object, ends the request as the
server's failure, whatever the webhook's failure policy says. A webhook may name a new object again;
an object that exists keeps its name and uid, and neither leaves its kind or its namespace. What
the server decides about a new object, its uid for one, is not for a webhook to change, and neither
is status but by its own subresource. All of that is as in Kubernetes, texts included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite import builtin, metadata
from kapilite.admission.attributes import internal
from kapilite.admission.review import converted
from kapilite.errors import ApiError, Undecodable
from kapilite.patches import patch
from kapilite.problems import invalid, rejected
from kapilite.schemas import embedded
from kapilite.schemas.comparing import same

if TYPE_CHECKING:
    from kapilite.admission.attributes import Attributes, Object
    from kapilite.admission.matching import Match
    from kapilite.kinds import Kind

_IMMUTABLE = ("name", "uid")


def patched(match: Match, attributes: Attributes, operations: tuple[Any, ...]) -> Object | None:
    """The changed object; None where the patch changes nothing."""
    if not operations:
        return None
    asked, before = attributes.kind, attributes.object
    if before is None:
        raise internal(
            f'admission webhook "{match.webhook.name}" attempted to modify the object, '
            "which is not supported for this operation"
        )
    shown = converted(before, asked, match.kind)
    result = _applied(attributes, shown, operations)
    _check_identity(attributes, shown, result)
    obj = _within_reach(attributes, before, converted(result, match.kind, asked))
    if asked.schema is not None and (obj["apiVersion"], obj["kind"]) == (
        asked.api_version,
        asked.kind,
    ):
        _read(asked, obj)
    return None if same(obj, before) else obj


def _read(kind: Kind, obj: Object) -> None:
    """Make of the changed object what the server makes of one that a client sends."""
    try:
        if kind.custom:
            embedded.complete(kind.schema or {}, obj)
        else:
            builtin.complete(kind, obj)
    except embedded.Unreadable as error:
        raise rejected(kind, obj["metadata"].get("name") or "", [error.problem]) from error
    except Undecodable as error:
        raise internal(error.message) from error


def _within_reach(attributes: Attributes, before: Object, obj: Object) -> Object:
    """Only what such a write may change at all: status by its own subresource, and nothing else."""
    status_only = attributes.subresource == "status"
    if not status_only and (attributes.subresource or not attributes.kind.has_status):
        return obj
    whole, status = (before, obj) if status_only else (obj, before)
    kept = {name: value for name, value in whole.items() if name != "status"}
    return kept | ({"status": status["status"]} if "status" in status else {})


def _applied(attributes: Attributes, obj: Object, operations: tuple[Any, ...]) -> Object:
    try:
        result = patch.apply(patch.JSON, obj, list(operations))
        metadata.decode(attributes.kind, result)
    except ApiError as error:
        raise internal(error.message) from error
    return result


def _check_identity(attributes: Attributes, before: Object, after: Object) -> None:
    kind = attributes.kind
    for field in ("apiVersion", "kind"):
        if field not in after and not kind.custom:
            after[field] = before[field]  # a program that knows the kind does not miss it
        elif after.get(field) != before[field]:
            problem = invalid(field, after.get(field, ""), f"must be {before[field]}")
            raise rejected(kind, attributes.name, [problem])
    meta, old = after["metadata"], before["metadata"]
    if (meta.get("namespace") or attributes.namespace) != attributes.namespace:
        text = (
            "the namespace of the provided object does not match the namespace sent on the request"
        )
        raise ApiError(400, "BadRequest", text)
    if attributes.operation == "CREATE":
        metadata.for_update(meta, old)
    else:
        problems = [
            invalid(f"metadata.{field}", meta.get(field, ""), "field is immutable")
            for field in _IMMUTABLE
            if field in old and meta.get(field) != old[field]
        ]
        if problems:
            raise rejected(kind, attributes.name, problems)
