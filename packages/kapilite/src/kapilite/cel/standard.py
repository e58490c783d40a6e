"""The operators and functions of the CEL specification."""

from __future__ import annotations

import math
import operator
import re
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from kapilite.cel import values
from kapilite.cel.functions import declare
from kapilite.cel.types import kind_of
from kapilite.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    CelError,
    Duration,
    Timestamp,
    TypeValue,
    UInt,
)
from kapilite.gotext.numbers import number_text
from kapilite.schemas import regex

if TYPE_CHECKING:
    from collections.abc import Callable

_SECOND = 1_000_000_000


def whole(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def unsigned(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def _truncated(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return left - right * _truncated(left, right)


def _quotient(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


# The order of overloads matters where a type is not known: the first that fits gives it one.
declare("_+_(bytes, bytes) bytes", "_+_(double, double) double")(operator.add)
declare("_-_(double, double) double")(operator.sub)
declare("_*_(double, double) double")(operator.mul)
declare("_/_(double, double) double")(_quotient)


@declare("_+_(duration, duration) duration")
def _longer(left: Duration, right: Duration) -> Duration:
    return values.duration(left.ns + right.ns)


@declare("_-_(duration, duration) duration")
def _shorter(left: Duration, right: Duration) -> Duration:
    return values.duration(left.ns - right.ns)


@declare("_+_(duration, timestamp) timestamp")
def _later_too(left: Duration, right: Timestamp) -> Timestamp:
    return right.moved(left.ns)


@declare("_+_(timestamp, duration) timestamp")
def _later(left: Timestamp, right: Duration) -> Timestamp:
    return left.moved(right.ns)


def _whole_numbers(name: str, run: Callable[[int, int], int]) -> None:
    @declare(f"_{name}_(int, int) int")
    def _int(left: int, right: int) -> int:
        return whole(run(left, right))


def _unsigned_numbers(name: str, run: Callable[[int, int], int]) -> None:
    @declare(f"_{name}_(uint, uint) uint")
    def _uint(left: int, right: int) -> UInt:
        return unsigned(run(int(left), int(right)))


_ARITHMETIC: tuple[tuple[str, Callable[[int, int], int]], ...] = (
    ("+", operator.add),
    ("-", operator.sub),
    ("*", operator.mul),
    ("/", _truncated),
    ("%", _remainder),
)
for _name, _run in _ARITHMETIC:
    _whole_numbers(_name, _run)
declare("_+_(list(A), list(A)) list(A)")(values.concatenated)
declare("_+_(string, string) string")(operator.add)


@declare("_-_(timestamp, duration) timestamp")
def _earlier(left: Timestamp, right: Duration) -> Timestamp:
    return left.moved(-right.ns)


@declare("_-_(timestamp, timestamp) duration")
def _between(left: Timestamp, right: Timestamp) -> Duration:
    return values.duration(left.ns - right.ns)


for _name, _run in _ARITHMETIC:
    _unsigned_numbers(_name, _run)

declare("-_(double) double")(operator.neg)


@declare("-_(int) int")
def _negated(value: int) -> int:
    return whole(-value)


declare("!_(bool) bool")(operator.not_)


_PAIRS = (
    *(("bool", "bool"), ("int", "int"), ("int", "double"), ("int", "uint"), ("uint", "uint")),
    *(("uint", "double"), ("uint", "int"), ("double", "double"), ("double", "int")),
    *(("double", "uint"), ("string", "string"), ("bytes", "bytes")),
    *(("timestamp", "timestamp"), ("duration", "duration")),
)
for _name, _compare in (
    ("<", operator.lt),
    ("<=", operator.le),
    (">", operator.gt),
    (">=", operator.ge),
):
    declare(*(f"_{_name}_({one}, {two}) bool" for one, two in _PAIRS))(_compare)

declare("_==_(A, A) bool")(values.equal)


@declare("_!=_(A, A) bool")
def _differ(left: Any, right: Any) -> bool:
    return not values.equal(left, right)


@declare("@in(A, list(A)) bool")
def _in_list(item: Any, items: list[Any]) -> bool:
    return values.contains(items, item)


@declare("@in(A, map(A, B)) bool")
def _in_map(key: Any, entries: dict[Any, Any]) -> bool:
    return values.has_key(entries, key)


@declare("size(map(A, B)) int", "map(A, B).size() int", "size(string) int", "string.size() int")
@declare("size(bytes) int", "bytes.size() int", "size(list(A)) int", "list(A).size() int")
def _size(value: Any) -> int:
    return len(value)


@declare("type(A) type(A)")
def _type(value: Any) -> TypeValue:
    return TypeValue(kind_of(value))


@declare("dyn(A) dyn")
def _dyn(value: Any) -> Any:
    return value


@declare("string.contains(string) bool")
def _contains(text: str, part: str) -> bool:
    return part in text


declare("string.startsWith(string) bool")(str.startswith)
declare("string.endsWith(string) bool")(str.endswith)


@declare("string.matches(string) bool", "matches(string, string) bool")
def _matches(text: str, pattern: str) -> bool:
    return bool(searched(pattern, text))


def searched(pattern: str, text: str) -> Any:
    """The first match of a pattern that need not have been known before."""
    try:
        return regex.search(pattern, text)
    except ValueError as error:
        raise CelError(str(error)) from error


@declare("int(int) int", "int(uint) int")
def _int(value: int) -> int:
    return whole(int(value))


@declare("int(double) int")
def _int_of_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


@declare("int(string) int")
def _int_of_text(text: str) -> int:
    return whole(_digits(text, "int"))


@declare("int(timestamp) int")
def _int_of_time(value: Timestamp) -> int:
    return value.ns // _SECOND


@declare("int(duration) int")
def _int_of_duration(value: Duration) -> int:
    return value.ns


def _digits(text: str, kind: str) -> int:
    body = text[1:] if text[:1] in ("-", "+") else text
    if not (body.isascii() and body.isdigit()) or len(body) > 40:
        raise CelError(f"type conversion error from 'string' to '{kind}'")
    return int(text)


@declare("uint(int) uint", "uint(uint) uint")
def _uint(value: int) -> UInt:
    return unsigned(int(value))


@declare("uint(double) uint")
def _uint_of_double(value: float) -> UInt:
    if not math.isfinite(value) or value < 0:
        raise CelError("unsigned integer overflow")
    return unsigned(int(value))


@declare("uint(string) uint")
def _uint_of_text(text: str) -> UInt:
    if text.startswith(("-", "+")):
        raise CelError("type conversion error from 'string' to 'uint'")
    return unsigned(_digits(text, "uint"))


@declare("double(int) double", "double(uint) double", "double(double) double")
def _double(value: float) -> float:
    return float(value)


_DOUBLE = re.compile(r"[+-]?(?:[0-9_.]+(?:e[+-]?[0-9_]+)?|inf|infinity)|nan", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"[+-]?0x[0-9a-f]*\.?[0-9a-f]*p[+-]?[0-9]+", re.IGNORECASE)


@declare("double(string) double")
def _double_of_text(text: str) -> float:
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
        found = float(text) if _DOUBLE.fullmatch(text) else None
    except (ValueError, OverflowError):
        found = None
    if found is None or (math.isinf(found) and "n" not in text.lower()):
        raise CelError("type conversion error from 'string' to 'double'")
    return found


@declare("bool(bool) bool")
def _bool(value: bool) -> bool:
    return value


_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


@declare("bool(string) bool")
def _bool_of_text(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise CelError("type conversion error from 'string' to 'bool'")
    return text in _TRUE


@declare("bytes(bytes) bytes")
def _bytes(value: bytes) -> bytes:
    return value


@declare("bytes(string) bytes")
def _bytes_of_text(text: str) -> bytes:
    return text.encode()


@declare("string(string) string", "string(int) string", "string(uint) string")
@declare("string(timestamp) string", "string(duration) string")
def _string(value: Any) -> str:
    return str(value)


@declare("string(bool) string")
def _string_of_bool(value: bool) -> str:
    return "true" if value else "false"


declare("string(double) string")(number_text)


@declare("string(bytes) string")
def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error


@declare("timestamp(timestamp) timestamp")
def _timestamp(value: Timestamp) -> Timestamp:
    return value


declare("timestamp(string) timestamp")(values.parse_timestamp)
declare("duration(string) duration")(values.parse_duration)


@declare("timestamp(int) timestamp")
def _timestamp_of_int(seconds: int) -> Timestamp:
    return values.timestamp(seconds * _SECOND)


@declare("duration(duration) duration")
def _duration(value: Duration) -> Duration:
    return value


_FIELDS = {
    "getFullYear": lambda time: time.year,
    "getMonth": lambda time: time.month - 1,
    "getDayOfYear": lambda time: time.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda time: time.day - 1,
    "getDate": lambda time: time.day,
    "getDayOfWeek": lambda time: time.isoweekday() % 7,
    "getHours": lambda time: time.hour,
    "getMinutes": lambda time: time.minute,
    "getSeconds": lambda time: time.second,
    "getMilliseconds": lambda time: time.microsecond // 1000,
}
_CYCLE = 400
"""After so many years the calendar begins again."""


def _getter(name: str, read: Any) -> None:
    @declare(f"timestamp.{name}() int", f"timestamp.{name}(string) int")
    def _get(time: Timestamp, zone: str = "UTC") -> int:
        moment = time.utc
        # Python has no year before the first and after the last: they are read in another cycle.
        shift = {1: _CYCLE, 9999: -_CYCLE}.get(moment.year, 0)
        try:
            found = moment.replace(year=moment.year + shift).astimezone(_zone(zone))
        except (ValueError, KeyError, OSError) as error:
            raise CelError(f"unknown time zone {zone}") from error
        return int(read(found)) - (shift if name == "getFullYear" else 0)


_OFFSET = re.compile(r"([+-]?)0*([0-9]{1,2}):[+]?0*([0-9]{1,2})", re.ASCII)


def _zone(name: str) -> timezone | ZoneInfo:
    if ":" not in name:
        return ZoneInfo(name) if name not in ("", "Local") else ZoneInfo("UTC")
    match = _OFFSET.fullmatch(name)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise ValueError(name)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


for _field, _read in _FIELDS.items():
    _getter(_field, _read)

for _field, _unit in (
    ("Hours", 3600 * _SECOND),
    ("Minutes", 60 * _SECOND),
    ("Seconds", _SECOND),
    ("Milliseconds", _SECOND // 1000),
):
    declare(f"duration.get{_field}() int")(lambda value, unit=_unit: _truncated(value.ns, unit))
