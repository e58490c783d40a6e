"""The values that expressions compute with, their equality and their order.

A CEL int is a Python int, a double a float, a string a str, a list a list and a map or object a
dict; what Python has no exact type for is defined here. Lists of list-type set and map compare and
add as Kubernetes has it: without regard to order, and by key.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
_SECOND = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = -62_135_596_800 * _SECOND
_LATEST = 253_402_300_800 * _SECOND - 1


class CelError(Exception):
    """An evaluation that has no value; the text is that of Kubernetes where it is well known."""


class UInt(int):
    """An unsigned integer, which is no int."""


class Timestamp(msgspec.Struct, frozen=True, order=True):
    """A point in time."""

    ns: int
    """Since the epoch."""

    @property
    def utc(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.ns // 1000)

    def __str__(self) -> str:
        fraction = f"{self.ns % _SECOND:09d}".rstrip("0")
        return f"{self.utc:%Y-%m-%dT%H:%M:%S}{'.' + fraction if fraction else ''}Z"


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time."""

    ns: int

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.ns), _SECOND)
        fraction = f"{rest:09d}".rstrip("0")
        return f"{'-' if self.ns < 0 else ''}{whole}{'.' + fraction if fraction else ''}s"


class TypeValue(msgspec.Struct, frozen=True):
    """What `type()` gives."""

    name: str


class Optional(msgspec.Struct, frozen=True):
    """A value that may be missing."""

    value: Any = None
    present: bool = False


class SetList(list[Any]):
    """A list whose order does not matter and whose items are unique."""


class MapList(list[Any]):
    """A list of objects found by the values of some of their fields."""

    def __init__(self, items: Any, keys: tuple[str, ...]) -> None:
        super().__init__(items)
        self.keys = keys

    def by_key(self) -> dict[str, Any]:
        return {repr([item.get(key) for key in self.keys]): item for item in self}


def timestamp(ns: int) -> Timestamp:
    if not _EARLIEST <= ns <= _LATEST:
        raise CelError("timestamp overflow")
    return Timestamp(ns)


def duration(ns: int) -> Duration:
    if not INT_MIN <= ns <= INT_MAX:
        raise CelError("integer overflow")
    return Duration(ns)


_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def parse_timestamp(text: str) -> Timestamp:
    """A time as RFC 3339 writes it."""
    match = _RFC3339.fullmatch(text)
    day, clock, fraction, zone = match.groups() if match else ("", "", "", "")
    offset = "+00:00" if zone in "Zz" else zone
    try:
        whole = datetime.fromisoformat(f"{day}T{clock}{offset}") - _EPOCH
    except (ValueError, OverflowError) as error:
        raise CelError(f'cannot parse "{text}" as a timestamp') from error
    nanoseconds = int((fraction or "").ljust(9, "0"))
    return timestamp((whole.days * 86_400 + whole.seconds) * _SECOND + nanoseconds)


_UNITS = {"h": 3600 * _SECOND, "m": 60 * _SECOND, "s": _SECOND, "ms": 10**6, "us": 1000, "ns": 1}
_PART = re.compile(r"(\d{1,25})?(?:\.(\d{0,25}))?(h|ms|m|s|us|µs|μs|ns)", re.ASCII)


def parse_duration(text: str) -> Duration:
    """A duration as Go writes it: `1h30m`."""
    sign = -1 if text.startswith("-") else 1
    rest = text.removeprefix("-") if sign < 0 else text.removeprefix("+")
    if rest == "0":
        return Duration(0)
    total, at = 0, 0
    while match := _PART.match(rest, at):
        whole, fraction, unit = match.groups()
        if not whole and not fraction:
            break
        scale = _UNITS[unit.replace("µ", "u").replace("μ", "u")]
        total += int(whole or 0) * scale
        if fraction:
            total += int(fraction) * scale // 10 ** len(fraction)
        at = match.end()
    if at == 0 or at < len(rest):
        raise CelError(f'time: invalid duration "{text}"')
    return duration(sign * total)


def equal(left: Any, right: Any) -> bool:
    """Equality across types: numbers by value, everything else only within its own kind."""
    if isinstance(left, CelError):
        raise left
    if isinstance(right, CelError):
        raise right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return _equal_lists(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return len(left) == len(right) and all(
            key in right and equal(value, right[key]) for key, value in left.items()
        )
    if isinstance(left, Optional) and isinstance(right, Optional):
        return left.present == right.present and equal(left.value, right.value)
    return bool(left == right)


def _equal_lists(left: list[Any], right: list[Any]) -> bool:
    if len(left) != len(right):
        return False
    if isinstance(left, MapList) and isinstance(right, MapList):
        return equal(left.by_key(), right.by_key())
    if isinstance(left, SetList) and isinstance(right, SetList):
        return all(contains(right, item) for item in left)
    return all(map(equal, left, right))


def contains(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


def concatenated(left: list[Any], right: list[Any]) -> list[Any]:
    """`+` of two lists: a union where they are sets or maps."""
    if isinstance(left, MapList) and isinstance(right, MapList):
        return MapList((left.by_key() | right.by_key()).values(), left.keys)
    if isinstance(left, SetList):
        return SetList([*left, *(item for item in right if not contains(left, item))])
    return [*left, *right]
