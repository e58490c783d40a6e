"""How large a value may be that a client sends, besides its bytes.

Whatever is done with an object goes down it by recursion and takes a time that grows with the
number of its values, during which no other request is served. Both are bounded, far above what any
real object has: the largest definitions in use have some ten thousand values.
"""

from __future__ import annotations

from typing import Any

from kapilite.errors import ApiError

DEPTH_LIMIT = 200
VALUES_LIMIT = 30_000
OBJECT_LIMIT = 3 * VALUES_LIMIT
"""Of an object with its managedFields, which can have more values than all the rest."""


def require_bounded(value: Any, limit: int = VALUES_LIMIT) -> None:
    """Raise a 400 for a value that is nested too deep, a 413 for one of too many values."""
    level, count = [value], 0
    for _ in range(DEPTH_LIMIT):
        inside: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                count += len(one)
                inside.extend(one.values())
            elif isinstance(one, list):
                count += len(one)
                inside.extend(one)
        if count > limit:
            text = f"Request entity too large: more than {limit} values"
            raise ApiError(413, "RequestEntityTooLarge", text)
        level = [one for one in inside if isinstance(one, dict | list)]
        if not level:
            return
    text = f"the object is nested more than {DEPTH_LIMIT} levels deep"
    raise ApiError(400, "BadRequest", text)
