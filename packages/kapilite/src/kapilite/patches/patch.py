"""The patch formats: a patch and an object give a new object; the old one is left as it was.

Merge patch (RFC 7386) and JSON patch (RFC 6902) work on everything, as Kubernetes does them: where
both leave something open, or it takes it otherwise, so does this. Strategic merge needs to know
which lists are maps in disguise; that is known for the built-in kinds only, so a custom resource
answers 415 and clients send a merge patch instead, as with a real API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.errors import ApiError
from kapilite.patches import json_patch, strategic

if TYPE_CHECKING:
    from kapilite.kinds import Kind

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def accepted(kind: Kind) -> tuple[str, ...]:
    """The media types that a patch of this kind may have."""
    return (JSON, MERGE) if kind.custom else (JSON, MERGE, STRATEGIC)


def apply(
    media_type: str, target: dict[str, Any], patch: Any, schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The patched object; the schema tells a strategic merge how lists are merged."""
    if media_type == JSON:
        result = json_patch.apply(target, patch)
        if not isinstance(result, dict):
            raise ApiError(422, "Invalid", "the patched object is not an object any more")
        return result
    if not isinstance(patch, dict):
        raise ApiError(400, "BadRequest", "the patch must be an object")
    if media_type == MERGE:
        merged: dict[str, Any] = _merge(target, patch)
        return merged
    return strategic.apply(schema, target, patch)


def _merge(old: Any, patch: Any) -> Any:
    """Of what takes the place of a map, nulls stay; of all else that is new they are left out."""
    if not isinstance(old, dict):
        return _pruned(patch)
    if not isinstance(patch, dict):
        return patch
    result = dict(old)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _pruned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _pruned(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_pruned(inner) for inner in value]
    return value
