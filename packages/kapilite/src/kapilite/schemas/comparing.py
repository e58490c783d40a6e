"""Equality of JSON values."""

from __future__ import annotations

from typing import Any


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: unlike in Python, `true` is not 1."""
    if left is right:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)
