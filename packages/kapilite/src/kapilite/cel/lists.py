"""Kubernetes' functions on lists, cel-go's on sets, and optional values."""

from __future__ import annotations

import itertools
from typing import Any

from kapilite.cel import values
from kapilite.cel.functions import declare
from kapilite.cel.standard import whole
from kapilite.cel.types import kind_of
from kapilite.cel.values import CelError, Duration, Optional

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration")
_NUMBERS = ("int", "uint", "double", "duration")


def _alike(items: list[Any]) -> list[Any]:
    """The items, which must be of one kind to be compared."""
    if len({kind_of(item) for item in items}) > 1:
        raise CelError("no such overload")
    return items


@declare(*(f"list({kind}).isSorted() bool" for kind in _ORDERED))
def _is_sorted(items: list[Any]) -> bool:
    try:
        pairs = itertools.pairwise(_alike(items))
        return not any(one > two for one, two in pairs)
    except TypeError as error:
        raise CelError("no such overload") from error


def _extreme(name: str, pick: Any) -> None:
    @declare(*(f"list({kind}).{name}() {kind}" for kind in _ORDERED))
    def _of(items: list[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        try:
            return pick(_alike(items))
        except TypeError as error:
            raise CelError("no such overload") from error


_extreme("min", min)
_extreme("max", max)


def _sum(kind: str, zero: Any) -> None:
    @declare(f"list({kind}).sum() {kind}")
    def _of(items: list[Any]) -> Any:
        match kind_of(_alike(items)[0]) if items else kind:
            case "int":
                return whole(sum(items))
            case "uint":
                return values.UInt(sum(map(int, items)))
            case "double":
                return float(sum(items))
            case "google.protobuf.Duration":
                return values.duration(sum(item.ns for item in items))
            case _ if not items:
                return zero
        raise CelError("no such overload")


for _kind, _zero in (
    ("int", 0),
    ("uint", values.UInt(0)),
    ("double", 0.0),
    ("duration", Duration(0)),
):
    _sum(_kind, _zero)


@declare("list(A).indexOf(A) int")
def _index_of(items: list[Any], wanted: Any) -> int:
    found = (index for index, item in enumerate(items) if values.equal(item, wanted))
    return next(found, -1)


@declare("list(A).lastIndexOf(A) int")
def _last_index_of(items: list[Any], wanted: Any) -> int:
    behind = _index_of(items[::-1], wanted)
    return -1 if behind < 0 else len(items) - 1 - behind


@declare("@sets.contains(list(A), list(A)) bool")
def _contains(items: list[Any], wanted: list[Any]) -> bool:
    return all(values.contains(items, item) for item in wanted)


@declare("@sets.equivalent(list(A), list(A)) bool")
def _equivalent(one: list[Any], two: list[Any]) -> bool:
    return _contains(one, two) and _contains(two, one)


@declare("@sets.intersects(list(A), list(A)) bool")
def _intersects(one: list[Any], two: list[Any]) -> bool:
    return any(values.contains(one, item) for item in two)


@declare("@optional.of(A) optional(A)")
def _of(value: Any) -> Optional:
    return Optional(value, present=True)


@declare("@optional.none() optional(A)")
def _none() -> Optional:
    return Optional()


@declare("@optional.ofNonZeroValue(A) optional(A)")
def _of_non_zero(value: Any) -> Optional:
    is_zero = value == Duration(0) if isinstance(value, Duration) else not value
    return Optional() if is_zero else Optional(value, present=True)


@declare("optional(A).hasValue() bool")
def _has_value(value: Optional) -> bool:
    return value.present


@declare("optional(A).value() A")
def _value(value: Optional) -> Any:
    if not value.present:
        raise CelError("optional.none() dereference")
    return value.value


@declare("optional(A).orValue(A) A")
def _or_value(value: Optional, other: Any) -> Any:
    return value.value if value.present else other


@declare("optional(A).or(optional(A)) optional(A)")
def _or(value: Optional, other: Optional) -> Optional:
    return value if value.present else other
