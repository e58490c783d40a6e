"""What Kubernetes knows of the fields of its kinds, from the table in `types.json`.

The table is made by `tools/api-types/` and holds facts of one release: for every struct its JSON
fields with type, protobuf number, list type and merge key. Schemas, decoding, strategic merge
patches and protobuf bodies are all derived from it, so they cannot disagree.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.kinds import Kind

Row = list[Any]


class Field(NamedTuple):
    """One field of a struct."""

    name: str
    number: int
    """In protobuf."""
    shape: str
    """How the values of the base type are arranged: "", "*", "[]", "map:" or "map:[]"."""
    base: str
    """A struct of the table, or a scalar such as `int32` or `Quantity`."""
    inline: bool
    """Its fields are those of the parent in JSON, and a message of their own in protobuf."""
    omitempty: bool
    """Left out of JSON when empty."""
    optional: bool
    facts: dict[str, Any]
    """`list`, `keys`, `patch`, `merge`, `enum`, `atomic`, `items`: see the tool's README."""

    @property
    def required(self) -> bool:
        return not (self.inline or self.omitempty or self.optional)


class Struct(NamedTuple):
    """A struct with its fields by JSON name, in the order of declaration."""

    name: str
    fields: dict[str, Field]
    atomic: bool
    typed: bool
    """Its objects say in `apiVersion` and `kind` what they are."""

    def flat(self) -> Iterator[Field]:
        """The fields as JSON has them."""
        for field in self.fields.values():
            if field.inline:
                yield from struct(field.base).flat()
            else:
                yield field


class _Table(msgspec.Struct):
    release: str
    types: dict[str, dict[str, Any]]


@cache
def _table() -> _Table:
    file = resources.files("kapilite.builtin").joinpath("types.json")
    return msgspec.json.decode(file.read_bytes(), type=_Table)


def release() -> str:
    """The Kubernetes release that the table describes."""
    return _table().release


def exists(name: str) -> bool:
    return name in _table().types


@cache
def struct(name: str) -> Struct:
    """A struct by its name in the table, such as `core.v1.PodSpec`."""
    raw = _table().types[name]
    fields = {key: _field(key, *row) for key, row in raw["fields"].items()}
    return Struct(name, fields, raw.get("atomic", False), raw.get("typed", False))


@cache
def flat(name: str) -> dict[str, Field]:
    """The fields of a struct as JSON has them, by name."""
    return {field.name: field for field in struct(name).flat()}


def name_of(kind: Kind) -> str | None:
    """The struct of a kind's objects, if the table has it."""
    if kind.custom:
        return None
    name = f"{kind.group.partition('.')[0] or 'core'}.{kind.version}.{kind.kind}"
    return name if exists(name) else None


def _field(
    name: str, number: int, type_: str, flags: str = "", facts: dict[str, Any] | None = None
) -> Field:
    at = max(type_.rfind(mark) + len(mark) if mark in type_ else 0 for mark in ("*", "[]", "map:"))
    return Field(
        name=name,
        number=number,
        shape=type_[:at],
        base=type_[at:],
        inline="i" in flags,
        omitempty="o" in flags,
        optional="?" in flags,
        facts=facts or {},
    )
