"""The operators of the CEL specification, and its functions on texts, lists and maps.

What converts values is in `conversions`, what reads times in `times`.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

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
from kapilite.schemas import regex

if TYPE_CHECKING:
    from collections.abc import Callable


def whole(value: int) -> int:
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def unsigned(value: int) -> UInt:
    if not 0 <= value <= UINT_MAX:
        raise CelError("unsigned integer overflow")
    return UInt(value)


def truncated(left: int, right: int) -> int:
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    if right == 0:
        raise CelError("modulus by zero")
    return left - right * truncated(left, right)


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
    ("/", truncated),
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
