"""Kubernetes' functions on lists, cel-go's on sets, and optional values."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from kapilite.cel import values
from kapilite.cel.functions import declare
from kapilite.cel.standard import unsigned, whole
from kapilite.cel.types import kind_of, parse_type
from kapilite.cel.values import CelError, Duration, Optional

if TYPE_CHECKING:
    from collections.abc import Callable

_ORDERED = ("int", "uint", "double", "bool", "string", "bytes", "timestamp", "duration")
_COMPARABLE = frozenset(parse_type(kind).name for kind in _ORDERED)
_MIXED = {"int", "uint", "double"}
_RANGE_LIMIT = 1_000_000
_FLATTEN_LIMIT = 1_000_000
"""Levels times elements, by which Kubernetes reckons what it costs."""


def _alike(items: list[Any]) -> list[Any]:
    """The items, which must be of one kind to be compared."""
    if len({kind_of(item) for item in items}) > 1:
        raise CelError("no such overload")
    return items


def _is_less(one: Any, two: Any) -> bool:
    """Whether one value comes before another; values of different kinds are in no order."""
    kinds = {kind_of(one), kind_of(two)}
    return bool(one < two) if len(kinds) == 1 or kinds <= _MIXED else False


def _ordered(item: Any) -> Any:
    if kind_of(item) not in _COMPARABLE:
        raise CelError("no such overload")
    return item


@declare(*(f"list({kind}).isSorted() bool" for kind in _ORDERED))
def _is_sorted(items: list[Any]) -> bool:
    return not any(_is_less(two, one) for one, two in itertools.pairwise(map(_ordered, items)))


@declare(*(f"list({kind}).min() {kind}" for kind in _ORDERED))
def _min(items: list[Any]) -> Any:
    return _extreme("min", items, lambda one, two: two if _is_less(two, one) else one)


@declare(*(f"list({kind}).max() {kind}" for kind in _ORDERED))
def _max(items: list[Any]) -> Any:
    return _extreme("max", items, lambda one, two: two if _is_less(one, two) else one)


def _extreme(name: str, items: list[Any], pick: Callable[[Any, Any], Any]) -> Any:
    if not items:
        raise CelError(f"{name} called on empty list")
    return functools.reduce(pick, map(_ordered, items))


def _sum(kind: str, zero: Any) -> None:
    @declare(f"list({kind}).sum() {kind}")
    def _of(items: list[Any]) -> Any:
        match kind_of(_alike(items)[0]) if items else kind:
            case "int":
                return whole(sum(items))
            case "uint":
                return unsigned(sum(map(int, items)))
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


@declare("list(A).slice(int, int) list(A)")
def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return items[start:end]


@declare("list(list(A)).flatten() list(A)", "list(dyn).flatten(int) list(dyn)")
def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0 or depth * len(items) > _FLATTEN_LIMIT:
        raise CelError(f"lists are not flattened to level {depth}")
    found: list[Any] = []
    for item in items:
        found.extend(_flatten(item, depth - 1) if depth and isinstance(item, list) else [item])
    return found


@declare("list(A).reverse() list(A)")
def _reverse(items: list[Any]) -> list[Any]:
    return items[::-1]


@declare("list(A).distinct() list(A)")
def _distinct(items: list[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if not values.contains(found, item):
            found.append(item)
    return found


@declare("@lists.range(int) list(int)")
def _range(size: int) -> list[int]:
    if not 0 <= size <= _RANGE_LIMIT:
        raise CelError(f"lists.range: size {size} exceeds maximum allowed ({_RANGE_LIMIT})")
    return list(range(size))


@declare(*(f"list({kind}).sort() list({kind})" for kind in _ORDERED))
def _sort(items: list[Any]) -> list[Any]:
    return _sort_by(items, items)


@declare(*(f"list(A).@sortByAssociatedKeys(list({kind})) list(A)" for kind in _ORDERED))
def _sort_by(items: list[Any], keys: list[Any]) -> list[Any]:
    if len(items) != len(keys):
        raise CelError("there are not as many keys as elements")
    order = sorted(range(len(items)), key=_alike(list(map(_ordered, keys))).__getitem__)
    return [items[at] for at in order]


@declare("list(A).first() optional(A)")
def _first(items: list[Any]) -> Optional:
    return Optional(items[0], present=True) if items else Optional()


@declare("list(A).last() optional(A)")
def _last(items: list[Any]) -> Optional:
    return _first(items[-1:])


@declare("@optional.unwrap(list(optional(A))) list(A)", "list(optional(A)).unwrapOpt() list(A)")
def _unwrap(items: list[Any]) -> list[Any]:
    if not all(isinstance(item, Optional) for item in items):
        raise CelError("value is not optional")
    return [item.value for item in items if item.present]


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
