"""How large a value may be that a client sends, besides its bytes.

Whatever is done with an object goes down it by recursion and takes a time that grows with the
number of its values, during which no other request is served. What is said of a value begins with
its path. All three are bounded, far above what any real object has: the largest definitions in use
have some ten thousand values.
"""

from __future__ import annotations

from typing import Any

from kapilite.errors import ApiError

DEPTH_LIMIT = 200
VALUES_LIMIT = 30_000
OBJECT_LIMIT = 3 * VALUES_LIMIT
"""Of an object with its managedFields, which can have more values than all the rest."""
PATH_LIMIT = 5_000
"""Characters of the keys above a value."""


def require_bounded(value: Any, limit: int = VALUES_LIMIT) -> None:
    """Raise a 400 for a value that is nested too deep, a 413 for one of too many values."""
    level: list[tuple[Any, int]] = [(value, 0)]
    count = 0
    for _ in range(DEPTH_LIMIT):
        inside: list[tuple[Any, int]] = []
        for one, above in level:
            if isinstance(one, dict):
                members = [(m, above + len(key)) for key, m in one.items() if _has_members(m)]
            elif isinstance(one, list):
                members = [(member, above) for member in one if _has_members(member)]
            else:
                continue
            count += len(one)
            inside += members
        if count > limit:
            text = f"Request entity too large: more than {limit} values"
            raise ApiError(413, "RequestEntityTooLarge", text)
        if any(above > PATH_LIMIT for _, above in inside):
            text = f"the keys above a value have more than {PATH_LIMIT} characters"
            raise ApiError(400, "BadRequest", text)
        level = inside
        if not level:
            return
    text = f"the object is nested more than {DEPTH_LIMIT} levels deep"
    raise ApiError(400, "BadRequest", text)


def _has_members(value: Any) -> bool:
    return isinstance(value, dict | list)
