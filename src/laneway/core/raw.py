"""JSON as it is written: objects of which Laneway does not know all fields, and looking into them.

The type checker has every part asked for what it is before it is used. msgspec takes no type that
contains itself: while the program runs, any JSON is `Any`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
else:
    Json = Any
JsonObject: TypeAlias = Mapping[str, Json]


def at(value: Json, path: Sequence[str]) -> Json:
    """What is at a path; None for nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def members(value: Json) -> JsonObject:
    """The fields of an object; none of what is no object."""
    return value if isinstance(value, Mapping) else {}


def items(value: Json) -> Sequence[Json]:
    """The items of a list; none of what is no list."""
    return value if isinstance(value, list) else ()
