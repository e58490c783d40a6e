"""Objects made from objects: an applied one merged into a live one, and fields taken away.

The results share their unchanged parts with what they were made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.apply.items import element_of, elements_of
from kapilite.apply.trees import ABSENT, child_type

if TYPE_CHECKING:
    from kapilite.apply.fieldset import FieldSet
    from kapilite.apply.types import ListType, MapType, Type


def merge(kind: Type, left: Any, right: Any) -> Any:
    """What `right` says, and of `left` the rest."""
    if right is ABSENT:
        return left
    form = kind.form(right)
    if form == "map" and kind.map and not kind.map.atomic:
        live = left if isinstance(left, dict) else {}
        applied = right if isinstance(right, dict) else {}
        if live or applied:
            return _merge_maps(kind.map, live, applied)
    elif form == "list" and kind.list and kind.list.associative:
        items = left if isinstance(left, list) else []
        applied_items = right if isinstance(right, list) else []
        if items or applied_items:
            return _merge_lists(kind.list, items, applied_items)
    return right


def _merge_maps(kind: MapType, live: dict[str, Any], applied: dict[str, Any]) -> dict[str, Any]:
    merged = dict(live)
    for name, value in applied.items():
        merged[name] = merge(child_type(kind, name), live.get(name, ABSENT), value)
    return merged


def _merge_lists(kind: ListType, live: list[Any], applied: list[Any]) -> list[Any]:
    """The applied items in their order, and between them the other live ones in theirs."""
    lefts, rights = elements_of(kind, live), elements_of(kind, applied)
    wanted = dict(zip(rights, applied, strict=True))
    known: dict[str, Any] = {}
    for element, item in zip(lefts, live, strict=True):
        # Of items that cannot be identified none is merged into.
        known[element] = ABSENT if element in known else item
    shared = [element for element in rights if element in known]
    merged: list[Any] = []
    done: set[str] = set()

    def take(element: str) -> None:
        done.add(element)
        merged.append(merge(kind.element, known.get(element, ABSENT), wanted[element]))
        if shared and shared[0] == element:
            del shared[0]

    left = right = 0
    while left < len(lefts) or right < len(rights):
        if left < len(lefts) and right < len(rights):
            if lefts[left] == rights[right]:
                take(rights[right])
                left, right = left + 1, right + 1
                continue
            if lefts[left] in wanted and shared and shared[0] != lefts[left]:
                left += 1  # its turn comes where the applied list has it
                continue
        if left < len(lefts):
            if lefts[left] not in wanted:
                merged.append(live[left])
                left += 1
                continue
            if lefts[left] in done:
                left += 1
        if right < len(rights):
            take(rights[right])
            right += 1
    return merged


def remove(kind: Type, value: Any, gone: FieldSet) -> Any:
    """The value without these fields; a map or list of which nothing is left is empty."""
    form = kind.form(value)
    if form == "map" and kind.map and isinstance(value, dict):
        return {} if kind.map.atomic else _remove_fields(kind.map, value, gone)
    if form == "list" and kind.list and isinstance(value, list):
        return _remove_items(kind.list, value, gone) if kind.list.associative else []
    return value


def _remove_fields(kind: MapType, value: dict[str, Any], gone: FieldSet) -> dict[str, Any]:
    kept = {}
    for name, child in value.items():
        element = f"f:{name}"
        if element in gone.members:
            continue
        below = gone.below(element)
        kept[name] = remove(child_type(kind, name), child, below) if below else child
    return kept


def _remove_items(kind: ListType, value: list[Any], gone: FieldSet) -> list[Any]:
    kept = []
    for item in value:
        element = element_of(kind, item)
        if element in gone.members:
            continue
        below = gone.below(element)
        kept.append(remove(kind.element, item, below) if below else item)
    return kept
