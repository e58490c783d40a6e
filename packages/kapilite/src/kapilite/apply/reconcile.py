"""Sets of fields brought in line with the schema as it is now.

A set that was written down may name fields inside of what the schema has since made atomic. A
manager that owned some of them now owns the whole. The other way round, who owned a whole that is
granular now owns that field and nothing in it, so there is nothing to do.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from kapilite.apply import trees
from kapilite.apply.fieldset import FieldSet, Path
from kapilite.apply.types import DEDUCED

if TYPE_CHECKING:
    from kapilite.apply.entries import Managed
    from kapilite.apply.types import Type


def reconciled(kind: Type, managed: Managed) -> Managed:
    """The owners, each with a set that fits the schema."""
    result = managed
    for manager, owned in managed.items():
        if whole := _outdated(kind, owned.fields):
            if result is managed:
                result = dict(managed)
            result[manager] = owned.now_owning(owned.fields.without(whole) | whole)
    return result


@functools.lru_cache(maxsize=2048)
def _outdated(kind: Type, fields: FieldSet) -> FieldSet:
    """What is owned as a whole now, although the set has fields beneath it."""
    found: list[Path] = []
    _visit(kind, fields, (), found)
    return FieldSet.of(found)


def _visit(kind: Type, fields: FieldSet, path: Path, found: list[Path]) -> None:
    if kind.map:
        if kind.map.element is DEDUCED and not kind.map.fields:
            return  # the schema says nothing about it
        is_whole = kind.map.atomic
    elif kind.list and not kind.scalar:
        is_whole = not kind.list.associative
    else:
        return
    if is_whole:
        found.append(path)
        return
    for element, below in fields.children.items():
        _visit(_type_at(kind, element), below, (*path, element), found)


def _type_at(kind: Type, element: str) -> Type:
    if kind.map:
        is_field = element.startswith("f:")
        return trees.child_type(kind.map, element[2:]) if is_field else DEDUCED
    return kind.list.element if kind.list else DEDUCED
