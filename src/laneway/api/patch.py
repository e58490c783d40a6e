"""The merge patch (RFC 7396) that turns one state of an object into another.

An encoded object leaves defaults out, so sending it as a patch could never clear a field. The
difference of two states can: what is no longer there is sent as null, and what neither state
mentions, such as another writer's fields, is not touched.
"""

from __future__ import annotations

import msgspec

from laneway.api.decoding import to_builtins
from laneway.core.raw import Json, JsonObject


def merge_patch(before: msgspec.Struct, after: msgspec.Struct) -> dict[str, Json]:
    """What to send so that `before` becomes `after`; empty when there is nothing to send."""
    return _difference(to_builtins(before), to_builtins(after))


def _difference(before: JsonObject, after: JsonObject) -> dict[str, Json]:
    patch: dict[str, Json] = {key: None for key in before if key not in after}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(new, dict) and isinstance(old, dict):
            if inner := _difference(old, new):
                patch[key] = inner
        elif new != old or key not in before:
            patch[key] = new
    return patch
