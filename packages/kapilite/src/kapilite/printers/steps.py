"""The steps of a JSONPath, each of which makes values of those that the one before it found.

A step that does not fit a value fails the whole path. What it had found until then decides whether
a filter that only asks whether something is there takes an element, so a failure carries it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kapilite.printers.golang import ByteOfText, compare

LIMIT = 20_000
"""Values that the paths of all columns together may visit in one object; a path that would visit
more fails."""
_SHOWN = 100
"""Characters that are shown in about the time of a visit."""

Values: TypeAlias = list[Any]
Step: TypeAlias = Callable[["Walk", Values], Values]

Takes: TypeAlias = Callable[["Walk", Any], bool | None]
"""Whether a filter takes an element; None where it cannot compare what it has."""


class Failed(Exception):  # noqa: N818 - a path that does not fit an object is no error of anybody
    """The path does not fit the object."""

    def __init__(self, found: Values) -> None:
        super().__init__()
        self.found = found


class Walk:
    """What may still be visited in one object."""

    def __init__(self) -> None:
        self._left = LIMIT

    def visit(self, values: Values) -> Values:
        self._spend(len(values) + 1)
        return values

    def show(self, text: str) -> str:
        self._spend(len(text) // _SHOWN)
        return text

    def _spend(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise Failed([])

    def follow(self, steps: list[Step], values: Values) -> Values:
        for step in steps:
            values = self.visit(step(self, values))
        return values


def field(key: str) -> Step:
    return lambda _, values: [v[key] for v in values if isinstance(v, dict) and key in v]


def constant(value: Any, *, anywhere: bool = False) -> Step:
    """A value in the place of each that was found; a text is there where none was found as well."""
    return lambda _, values: [value] if anywhere else [value] * len(values)


def fails(*, empty: bool) -> Step:
    def step(_: Walk, values: Values) -> Values:
        raise Failed([] if empty else values)

    return step


def _children(value: Any) -> Values:
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, str):
        return [ByteOfText(one) for one in value[: LIMIT + 1].encode(errors="replace")]
    return value if isinstance(value, list) else []


def children(walk: Walk, values: Values) -> Values:
    return [child for value in values for child in walk.visit(_children(value))]


def descend(walk: Walk, values: Values) -> Values:
    """Everything that has something in it, texts too, each before what is in it."""
    found: Values = []
    open_ = values[::-1]
    while open_:
        value = open_.pop()
        if isinstance(value, dict | list | str) and value:
            found.append(value)
            inside = [] if isinstance(value, str) else _children(value)
            open_ += walk.visit(inside[::-1])
    return found


def union(parts: list[list[Step]]) -> Step:
    def step(walk: Walk, values: Values) -> Values:
        try:
            return [found for part in parts for found in walk.follow(part, values)]
        except Failed:
            raise Failed(values) from None

    return step


def slice_of(start: int | None, end: int | None, stride: int | None, *, single: bool) -> Step:
    """Elements of lists: those of a slice, or the `single` one at the start."""
    if single:
        end = (start or 0) + 1

    def step(_: Walk, values: Values) -> Values:
        found: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise Failed(values)
            size = len(value)
            low = start or 0
            low += size if low < 0 else 0
            high = size if end is None else end
            high += size if high < 0 or (high == 0 and single) else 0
            if low == high:
                return found  # and nothing of what comes after it
            if not (0 <= low < size and low < high <= size) or (stride or 1) < 0 or stride == 0:
                raise Failed(values)
            found += value[low:high:stride]
        return found

    return step


def having(takes: Takes) -> Step:
    """The elements of lists that a filter takes."""

    def step(walk: Walk, values: Values) -> Values:
        found: Values = []
        for value in values:
            if not isinstance(value, list):
                raise Failed(values)
            for element in walk.visit(value):
                try:
                    taken = takes(walk, element)
                except Failed:
                    raise Failed(values) from None
                if taken is None:
                    raise Failed(found)
                if taken:
                    found.append(element)
        return found

    return step


def exists(left: list[Step]) -> Takes:
    """A filter that only asks whether something is there."""

    def takes(walk: Walk, element: Any) -> bool:
        try:
            return bool(walk.follow(left, [element]))
        except Failed as failed:
            return bool(failed.found)

    return takes


def comparison(left: list[Step], operator: str, right: list[Step]) -> Takes:
    def takes(walk: Walk, element: Any) -> bool | None:
        found = []
        for side in (left, right):
            values = walk.follow(side, [element])
            if len(values) > 1:
                raise Failed(values)
            if not values:
                return False
            found += values
        return compare(found[0], operator, found[1])

    return takes


def key_comparison(key: str, operator: str, text: str) -> Takes:
    """The comparison of a key with a text, by which conditions are chosen."""

    def takes(_: Walk, element: Any) -> bool | None:
        if not isinstance(element, dict) or key not in element:
            return False
        return compare(element[key], operator, text)

    return takes
