"""The values that expressions compute with, their equality and their order.

A CEL int is a Python int, a double a float, a string a str, a list a list and a map or object a
dict; what Python has no exact type for is defined here. Lists of list-type set and map compare and
add as Kubernetes has it: without regard to order, and by key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1
SECOND = 1_000_000_000
"""Nanoseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = -62_135_596_800 * SECOND
_LATEST = 253_402_300_800 * SECOND - 1


class CelError(Exception):
    """An evaluation that has no value; the text is that of Kubernetes where it is well known."""


class UInt(int):
    """An unsigned integer, which is no int."""


@dataclass(frozen=True, order=True, slots=True)
class Timestamp:
    """A point in time."""

    ns: int
    """Since the epoch."""
    offset: int = field(default=0, compare=False)
    """Minutes east of UTC, in which it is written."""

    @property
    def utc(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.ns // 1000)

    def moved(self, ns: int) -> Timestamp:
        return timestamp(self.ns + ns, self.offset)

    def __str__(self) -> str:
        whole = (self.utc + timedelta(minutes=self.offset)).replace(microsecond=0, tzinfo=None)
        fraction = f"{self.ns % SECOND:09d}".rstrip("0")
        hours, minutes = divmod(abs(self.offset), 60)
        zone = f"{'-' if self.offset < 0 else '+'}{hours:02d}:{minutes:02d}" if self.offset else "Z"
        return f"{whole.isoformat()}{'.' + fraction if fraction else ''}{zone}"


class Duration(msgspec.Struct, frozen=True, order=True):
    """A length of time."""

    ns: int

    def __str__(self) -> str:
        whole, rest = divmod(abs(self.ns), SECOND)
        seconds = whole + rest / SECOND  # not exact, as in Go
        text = f"{Decimal(repr(float(seconds))):f}".removesuffix(".0")
        return f"{'-' if self.ns < 0 else ''}{text}s"


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


def timestamp(ns: int, offset: int = 0) -> Timestamp:
    if not _EARLIEST <= ns <= _LATEST:
        raise CelError("timestamp overflow")
    return Timestamp(ns, offset)


def duration(ns: int) -> Duration:
    if not INT_MIN <= ns <= INT_MAX:
        raise CelError("integer overflow")
    return Duration(ns)


_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:[.,](\d{1,9})\d*)?(Z|[+-]\d\d:[0-5]\d)", re.ASCII
)


def parse_timestamp(text: str) -> Timestamp:
    """A time as RFC 3339 writes it."""
    match = _RFC3339.fullmatch(text)
    day, clock, fraction, zone = match.groups() if match else ("", "", "", "")
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{zone.replace('Z', '+00:00')}")
        whole = moment - _EPOCH
    except (ValueError, OverflowError) as error:
        raise CelError(f'cannot parse "{text}" as a timestamp') from error
    nanoseconds = (whole.days * 86_400 + whole.seconds) * SECOND + int(
        (fraction or "").ljust(9, "0")
    )
    east = moment.utcoffset() or timedelta()
    return timestamp(nanoseconds, east // timedelta(minutes=1))


_UNITS = {"h": 3600 * SECOND, "m": 60 * SECOND, "s": SECOND, "ms": 10**6, "us": 1000, "ns": 1}
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
            digits = fraction[:18]
            total += int(int(digits) * (scale / 10.0 ** len(digits)))  # not exact, as in Go
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
            has_key(right, key) and equal(value, right[key]) for key, value in left.items()
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


def has_key(entries: dict[Any, Any], key: Any) -> bool:
    """Whether there is an entry for a key: numbers are equal across types, but not to booleans."""
    if not isinstance(key, str | int | float | bool) or key not in entries:
        return False
    if isinstance(key, str) or key not in (0, 1):
        return True
    return any(
        found == key and isinstance(found, bool) == isinstance(key, bool) for found in entries
    )


def contains(items: list[Any], wanted: Any) -> bool:
    return any(equal(item, wanted) for item in items)


def concatenated(left: list[Any], right: list[Any]) -> list[Any]:
    """`+` of two lists: a union where they are sets or maps."""
    if isinstance(left, MapList) and isinstance(right, MapList):
        return MapList((left.by_key() | right.by_key()).values(), left.keys)
    if isinstance(left, SetList):
        return SetList([*left, *(item for item in right if not contains(left, item))])
    return [*left, *right]
