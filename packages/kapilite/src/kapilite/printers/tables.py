r"""Objects as the meta.k8s.io/v1 Table that `kubectl get` prints.

Cells follow the API server's rules for custom resources, so that a column reads the same here and
on a cluster: Name first, then the kind's own columns, and Age only where a kind has none. A value
that does not fit its column, or is absent, leaves the cell empty; a table never fails because of
one object.

Column paths are in Kubernetes' JSONPath dialect (`.spec.a`, `[?(@.type=="Ready")]`, `\.` for a dot
inside a key). Nearly all of them are a chain of keys, some with the choice of a condition by its
type; both are walked directly: a table of 10,000 objects is then made in a fraction of a second.
The others are translated for python-jsonpath. Either way a path is compiled once per process.

A path is walked for every object of a list, so what would take a time that is not proportional to
the object is refused: a second search at any depth, a search or a regular expression in a filter.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from kapilite import printers
from kapilite.kinds import Column, Kind
from kapilite.printers import durations

if TYPE_CHECKING:
    from jsonpath import CompoundJSONPath, JSONPath

_Step: TypeAlias = str | tuple[str, str]
"""A key, or the choice of the elements of a list whose key has a text."""

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

_SEGMENT = re.compile(
    r"""
      (?P<deep>\.\.)
    | (?P<any>\.?\*|\[\*\])
    | \.?(?P<key>(?:\\.|[^\s.,\[\]$@{}*\\])+)
    | \[\?\((?P<filter>(?:[^"'()]|"[^"]*"|'[^']*')*)\)\]
    | \[(?P<index>-?\d+|-?\d*:-?\d*(?::\d+)?)\]
    | \[(?P<quoted>'[^']*'(?:\s*,\s*'[^']*')*)\]
    """,
    re.VERBOSE | re.ASCII,
)
_FILTER_PATH = re.compile(
    r"""("[^"]*"|'[^']*')|(@)((?:\.?\[[^\]]*\]|\.(?:\\.|[^\s.,\[\]=!<>~])+)*)"""
)
_EQUALS = re.compile(r"""@\.(\w+)\s*==\s*(?:"([^"\\]*)"|'([^'\\]*)')""", re.ASCII)
"""A filter for elements whose key has this text, which is how conditions are chosen."""
_COSTLY = re.compile(r"""\.\.|=~""")
_UNESCAPE = re.compile(r"\\(.)")


class _Path:
    """A compiled column path."""

    def __init__(self, text: str) -> None:
        segments = list(_segments(text.removeprefix("$")))
        self._steps = [step for step, _ in segments if step is not None]
        keys = [step for step in self._steps if isinstance(step, str)]
        self._keys = keys if len(keys) == len(segments) else None
        self._query: JSONPath | CompoundJSONPath | None = None
        if len(self._steps) != len(segments):
            import jsonpath  # noqa: PLC0415 - few paths need it, and no server to start

            try:
                self._query = jsonpath.compile("$" + "".join(text for _, text in segments))
            except jsonpath.JSONPathError as error:
                raise ValueError(f"{text!r} is not a column path: {error}") from None

    def find(self, obj: Any) -> list[Any]:
        """Every value at the path that is not null."""
        if self._query is not None:
            import jsonpath  # noqa: PLC0415 - as above

            try:
                return [value for value in self._query.findall(obj) if value is not None]
            except jsonpath.JSONPathError:
                return []
        if self._keys is not None:
            value = obj
            for key in self._keys:
                if not isinstance(value, dict):
                    return []
                value = value.get(key)
            return [] if value is None else [value]
        found = [obj]
        for step in self._steps:
            if isinstance(step, str):
                found = [
                    value[step] for value in found if isinstance(value, dict) and step in value
                ]
            else:
                found = [element for value in found for element in _chosen(value, *step)]
        return [value for value in found if value is not None]


@lru_cache(maxsize=4096)
def compile_path(text: str) -> _Path:
    """Compile a column's JSONPath; ValueError says why it cannot be one."""
    return _Path(text)


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
        "columnDefinitions": [_header(c) for c in _columns(kind)] if headers else [],
    }


def rows(
    kind: Kind, include_object: str, now: datetime | None = None
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What makes the row of an object."""
    at = now or datetime.now(UTC)
    cells = [_printer(kind, column, at) for column in _columns(kind)]
    return lambda obj: {
        "cells": [cell(obj) for cell in cells],
        "object": _row_object(obj, include_object),
    }


def _columns(kind: Kind) -> tuple[Column, ...]:
    """Name comes first, unless the kind puts it elsewhere, as events do."""
    columns = kind.columns or (_AGE,)
    named = any(column.format == "name" for column in columns)
    return columns if named else (_NAME, *columns)


def _printer(kind: Kind, column: Column, now: datetime) -> Callable[[dict[str, Any]], Any]:
    """What makes the cells of one column."""
    made = printers.CELLS.get((kind.resource, column.name))
    if made is None and not kind.custom and column.json_path == AGE:
        made = printers.age
    if made:
        return lambda obj: made(obj, now)
    path = compile_path(column.json_path)
    absent = None if kind.custom else ""
    return lambda obj: _cell(path.find(obj), column.type, now, absent)


def _header(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description
        or f"Custom resource definition column (in JSONPath format): {column.json_path}",
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


def _cell(values: list[Any], type_: str, now: datetime, absent: str | None) -> Any:
    if not values:
        return absent
    first = values[0]
    match type_:
        case "string":
            return ",".join(map(_text, values))
        case "integer" if isinstance(first, int | float) and not isinstance(first, bool):
            return int(first) if math.isfinite(first) else None
        case "number" if isinstance(first, int | float) and not isinstance(first, bool):
            return first
        case "boolean" if isinstance(first, bool):
            return first
        case "date" if isinstance(first, str):
            return durations.age(first, now)
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="sorted").decode()


def _chosen(value: Any, key: str, text: str) -> list[Any]:
    elements = value if isinstance(value, list) else []
    return [
        element for element in elements if isinstance(element, dict) and element.get(key) == text
    ]


def _segments(text: str) -> list[tuple[_Step | None, str]]:
    """Each step in the form that is walked directly, where it has one, and for python-jsonpath."""
    found: list[tuple[_Step | None, str]] = []
    at, after_deep = 0, False
    while at < len(text):
        match = _SEGMENT.match(text, at)
        if match is None:
            raise ValueError(f"{text!r} is not a column path: cannot read {text[at:]!r}")
        at = match.end()
        key: _Step | None = None
        if match["deep"]:
            step = ".."
        elif match["any"]:
            step = "[*]"
        elif match["key"] is not None:
            key = _UNESCAPE.sub(r"\1", match["key"])
            step = _bracket(key)
        elif match["filter"] is not None:
            if _COSTLY.search(match["filter"]):
                raise ValueError(f"{text!r} is not a column path: a filter may only compare")
            if equals := _EQUALS.fullmatch(match["filter"].strip()):
                key = (equals[1], equals[2] if equals[2] is not None else equals[3])
            step = f"[?({_FILTER_PATH.sub(_filter_path, match['filter'])})]"
        elif match["index"] is not None:
            step = f"[{match['index']}]"
        else:
            quoted = re.findall(r"'([^']*)'", match["quoted"])
            names = list(dict.fromkeys(_UNESCAPE.sub(r"\1", name) for name in quoted))
            key = names[0] if len(names) == 1 else None
            step = "[" + ",".join(map(_quote, names)) + "]"
        found.append((None if after_deep else key, step))
        after_deep = step == ".."
    if sum(step == ".." for _, step in found) > 1:
        raise ValueError(f"{text!r} is not a column path: it may have one .. at most")
    return found


def _filter_path(match: re.Match[str]) -> str:
    if match[1]:
        return match[1]
    return "@" + "".join(step for _, step in _segments(match[3]))


def _bracket(key: str) -> str:
    return f"[{_quote(key)}]"


def _quote(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
