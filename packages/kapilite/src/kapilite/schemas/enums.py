"""Whether a value is one of an enumeration, as Kubernetes compares them.

A value is made the type of the one that it is compared with, where Go can do that: compared with an
integer only the whole part of a number counts, and compared with a text an integer is the character
with its code. Null is never one of them.
"""

from __future__ import annotations

from typing import Any

from kapilite.schemas.numbers import truncated
from kapilite.schemas.ratcheting import is_same

_NO_CHARACTER = "\ufffd"


def is_among(value: Any, allowed: list[Any]) -> bool:
    """Whether an enumeration has the value."""
    if isinstance(value, str):
        return value in allowed
    return any(_is_equal(value, item) for item in allowed)


def _is_equal(value: Any, item: Any) -> bool:
    if value is None or item is None:
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(item, str):
            return isinstance(value, int) and _character(value) == item
        if isinstance(item, float):
            return float(value) == item
        if isinstance(item, int) and not isinstance(item, bool):
            return truncated(value) == item
        return False
    return is_same(value, item)


def _character(code: int) -> str:
    if not 0 <= code <= 0x10FFFF or 0xD800 <= code < 0xE000:
        return _NO_CHARACTER
    return chr(code)
