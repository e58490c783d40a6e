"""The patch formats: a patch and an object give a new object; the old one is left as it was.

Merge patch (RFC 7386) and JSON patch (RFC 6902) work on everything. Strategic merge needs to know
which lists are maps in disguise; that is known for the built-in kinds only, so a custom resource
answers 415 and clients send a merge patch instead, as with a real API server.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.errors import ApiError
from kapilite.patches import strategic

if TYPE_CHECKING:
    from kapilite.kinds import Kind

JSON = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

OPERATIONS_LIMIT = 10_000
COPY_LIMIT = 3 * 1024 * 1024
"""Bytes that the copies of one patch may add up to: copies of copies double with each."""
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def accepted(kind: Kind) -> tuple[str, ...]:
    """The media types that a patch of this kind may have."""
    return (JSON, MERGE) if kind.custom else (JSON, MERGE, STRATEGIC)


def apply(
    media_type: str, target: dict[str, Any], patch: Any, schema: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The patched object; the schema tells a strategic merge how lists are merged."""
    if media_type == JSON:
        return _json_patch(target, patch)
    if not isinstance(patch, dict):
        raise ApiError(400, "BadRequest", "the patch must be an object")
    if media_type == MERGE:
        result: dict[str, Any] = _merge(target, patch)
        return result
    return strategic.apply(schema, target, patch)


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _rejected(reason: str) -> ApiError:
    # Kubernetes keeps the reason to itself.
    text = f"the server rejected our request due to an error in our request: {reason}"
    return ApiError(422, "Invalid", text)


def _json_patch(target: dict[str, Any], patch: Any) -> dict[str, Any]:
    if not isinstance(patch, list) or not all(isinstance(op, dict) for op in patch):
        raise ApiError(
            400,
            "BadRequest",
            "json: cannot unmarshal object into Go value of type jsonpatch.Patch: "
            "a JSON patch must be a list of operations",
        )
    if len(patch) > OPERATIONS_LIMIT:
        text = f"a JSON patch may have at most {OPERATIONS_LIMIT} operations, this has {len(patch)}"
        raise ApiError(413, "RequestEntityTooLarge", text)
    for op in patch:
        # The library knows more operations than the standard.
        if op.get("op") not in _OPERATIONS:
            raise _rejected(f"unknown operation: {op.get('op')!r}")
    # A server starts a tenth faster without it, and many never need it.
    from jsonpath.exceptions import JSONPatchError, JSONPointerError  # noqa: PLC0415 - see above
    from jsonpath.patch import JSONPatch, OpCopy  # noqa: PLC0415 - see above

    result: Any = copy.deepcopy(target)
    copied = 0
    where = ""
    try:
        for number, op in enumerate(JSONPatch(patch, unicode_escape=False).ops):
            where = f" ({op.name}:{number})"
            if isinstance(op, OpCopy):
                copied += len(msgspec.json.encode(op.source.resolve(result)))
                if copied > COPY_LIMIT:
                    text = f"the copies of a JSON patch may add up to {COPY_LIMIT} bytes"
                    raise ApiError(413, "RequestEntityTooLarge", text)
            result = op.apply(result)
    except (JSONPatchError, JSONPointerError) as error:
        reason = (str(error) or "test failed") + where
        raise _rejected(reason) from error
    if not isinstance(result, dict):
        raise ApiError(422, "Invalid", "the patched object is not an object any more")
    return result
