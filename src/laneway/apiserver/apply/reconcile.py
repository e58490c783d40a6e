"""Sets of fields brought in line with the schema as it is now.

A set that was written down may be at odds with the schema: it names fields inside of what is now
owned as a whole, or as a whole what is now owned field by field. The first becomes the whole, the
second every field that the live object has there. So does an entry of which only the outer map is
left because others took what was in it, which is what Kubernetes does.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from laneway.apiserver.apply import trees
from laneway.apiserver.apply.fieldset import EMPTY, FieldSet, Path
from laneway.apiserver.apply.types import DEDUCED

if TYPE_CHECKING:
    from laneway.apiserver.apply.entries import Managed
    from laneway.apiserver.apply.types import Type


def reconciled(kind: Type, live: Any, managed: Managed) -> Managed:
    """The owners of the live object, each with a set that fits the schema."""
    present: FieldSet | None = None
    result = managed
    for manager, owned in managed.items():
        whole, granular = _outdated(kind, owned.fields)
        if not whole and not granular:
            continue
        if granular and present is None:
            present = trees.fields(kind, live)
        fields = owned.fields.without(FieldSet.of(whole)) | FieldSet.of(whole)
        for path in granular:
            fields |= _beneath(present or EMPTY, path)
        if result is managed:
            result = dict(managed)
        result[manager] = owned.now_owning(fields)
    return result


def _beneath(present: FieldSet, path: Path) -> FieldSet:
    found = present
    for element in path:
        found = found.below(element)
    if not found:
        return EMPTY
    for element in reversed(path):
        found = FieldSet(children={element: found})
    return found


@functools.lru_cache(maxsize=2048)
def _outdated(kind: Type, fields: FieldSet) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """The paths of what is now owned as a whole, and of what is now owned field by field."""
    whole: list[Path] = []
    granular: list[Path] = []
    _visit(kind, fields, (), whole, granular, is_whole=False)
    return tuple(whole), tuple(granular)


def _visit(
    kind: Type,
    fields: FieldSet,
    path: Path,
    whole: list[Path],
    granular: list[Path],
    *,
    is_whole: bool,
) -> None:
    if kind.map:
        if kind.map.element is DEDUCED and not kind.map.fields:
            return  # the schema says nothing about it
        is_granular = not kind.map.atomic
    elif kind.list and not kind.scalar:
        is_granular = kind.list.associative
    else:
        return
    if not is_granular:
        if not is_whole and fields:
            whole.append(path)
        return
    if is_whole:
        granular.append(path)
    for element in fields.members | fields.children.keys():
        below = fields.below(element)
        sub = _type_at(kind, element)
        is_leaf = element in fields.members and not below
        _visit(sub, below, (*path, element), whole, granular, is_whole=is_leaf)


def _type_at(kind: Type, element: str) -> Type:
    if kind.map:
        is_field = element.startswith("f:")
        return trees.child_type(kind.map, element[2:]) if is_field else DEDUCED
    return kind.list.element if kind.list else DEDUCED
