r"""Objects as the meta.k8s.io/v1 Table that `kubectl get` prints.

Cells follow the API server's rules for custom resources, so that a column reads the same here and
on a cluster: Name first, then the kind's own columns, and Age only where a kind has none. A value
that does not fit its column, or is absent, leaves the cell empty; a table never fails because of
one object.

A kind's column is at a JSONPath (`printers.jsonpath`). Of several values there the cell shows the
first. Where a definition has a column whose path cannot be read, this one and all after it are left
out, as in Kubernetes, which accepts such a definition.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from kapilite import printers
from kapilite.kinds import Column, Kind
from kapilite.printers import durations, jsonpath
from kapilite.printers.golang import text_of
from kapilite.printers.steps import Failed, Walk

AGE = ".metadata.creationTimestamp"

_NAME = Column(
    name="Name",
    type="string",
    json_path=".metadata.name",
    format="name",
    description="The object's name, unique among objects of its kind in its namespace.",
)
_AGE = Column(
    name="Age",
    type="date",
    json_path=AGE,
    description="Time since the object was created.",
)


@lru_cache(maxsize=4096)
def compile_path(text: str) -> jsonpath.Path:
    """The path of a column. Raises jsonpath.UnreadableError and jsonpath.UnsupportedError."""
    return jsonpath.Path(text)


def render(
    kind: Kind,
    objects: Sequence[dict[str, Any]],
    *,
    include_object: str = "Metadata",
    headers: bool = True,
    now: datetime | None = None,
) -> dict[str, Any]:
    """Make the Table of these objects; the caller adds list metadata.

    `include_object` is the request's parameter: `None`, `Metadata` or `Object`. A watch sends the
    headers with its first event only.
    """
    row = rows(kind, include_object, now)
    return {**head(kind, headers=headers), "rows": [row(obj) for obj in objects]}


def head(kind: Kind, *, headers: bool = True) -> dict[str, Any]:
    """A Table but for its rows."""
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [_header(c, custom=kind.custom) for c in _columns(kind)]
        if headers
        else [],
    }


def rows(
    kind: Kind, include_object: str, now: datetime | None = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What makes the row of an object."""
    at = now or datetime.now(UTC)
    cells = [_printer(kind, column, at) for column in _columns(kind)]

    def row(obj: dict[str, Any]) -> dict[str, Any]:
        walk = Walk()
        return {
            "cells": [cell(obj, walk) for cell in cells],
            "object": _row_object(obj, include_object),
        }

    return row


def _columns(kind: Kind) -> tuple[Column, ...]:
    """Name comes first, unless the kind puts it elsewhere, as events do."""
    columns = tuple(itertools.takewhile(_readable, kind.columns)) if kind.columns else (_AGE,)
    named = any(column.format == "name" for column in columns)
    return columns if named else (_NAME, *columns)


def _readable(column: Column) -> bool:
    try:
        compile_path(column.json_path)
    except ValueError:
        return False
    return True


def _printer(kind: Kind, column: Column, now: datetime) -> Callable[[dict[str, Any], Walk], Any]:
    """What makes the cells of one column."""
    made = printers.CELLS.get((kind.resource, column.name))
    if made is None and not kind.custom and column.json_path == AGE:
        made = printers.age
    if made:
        return lambda obj, _: made(obj, now)
    path = compile_path(column.json_path)
    absent = None if kind.custom else ""

    def cell(obj: dict[str, Any], walk: Walk) -> Any:
        try:
            walk.visit([])
            return _cell(path.find(obj, walk), column.type, now, absent, walk)
        except Failed:
            return absent

    return cell


def _described(column: Column) -> str:
    return f"Custom resource definition column (in JSONPath format): {column.json_path}"


def _header(column: Column, *, custom: bool) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description or (_described(column) if custom else ""),
        "priority": column.priority,
    }


def _row_object(obj: dict[str, Any], include: str) -> dict[str, Any] | None:
    if include == "None":
        return None
    if include == "Object":
        return obj
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj.get("metadata", {}),
    }


def _cell(values: list[Any], type_: str, now: datetime, absent: str | None, walk: Walk) -> Any:
    if not values:
        return absent
    first = values[0]
    match type_:
        case "string":
            return walk.show(text_of(first))
        case "integer" if type(first) in (int, float):
            return _integer(first)
        case "number" if type(first) in (int, float):
            return _number(first)
        case "boolean" if isinstance(first, bool):
            return first
        case "date" if isinstance(first, str):
            return durations.age(first, now)
    return None


def _integer(value: float) -> int | None:
    number = int(value) if math.isfinite(value) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def _number(value: float) -> float | None:
    """Of 64 bits, and written without a point where it has no fraction."""
    number = float(value)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 1e21 else number
