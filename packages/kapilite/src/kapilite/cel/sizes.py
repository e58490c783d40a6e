"""Sizes and costs as Kubernetes reckons with them: never more than 64 bits hold."""

from __future__ import annotations

import math
from typing import NamedTuple

MOST = 2**64 - 1


class Size(NamedTuple):
    """Of a text, a list or a map."""

    least: int
    most: int

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))

    def plus(self, other: Size) -> Size:
        return Size(min(self.least + other.least, MOST), min(self.most + other.most, MOST))

    def times(self, other: Size) -> Size:
        return Size(min(self.least * other.least, MOST), min(self.most * other.most, MOST))


UNKNOWN, ONE, NOTHING = Size(0, MOST), Size(1, 1), Size(0, 0)


class Entry(NamedTuple):
    """The sizes of the keys and values of a list or map; those of a list have the key 1."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: Entry | None) -> Entry | None:
        if other is None:
            return None
        return Entry(self.is_list, self.key.union(other.key), self.value.union(other.value))


def scaled(number: int, factor: float) -> int:
    """Rounded up."""
    return min(math.ceil(number * factor), MOST)
