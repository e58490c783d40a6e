"""What one object means in fields: those it has, those that differ from another's.

`None` is a value here, so an absent one is ABSENT. A part that is owned as a whole (a scalar, an
atomic list or map) is a leaf; an empty map or list is one too, which keeps it apart from an absent
one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from kapilite.apply.fieldset import EMPTY, FieldSet, Path
from kapilite.apply.items import SchemaMismatch, elements_of, scalar_problem
from kapilite.apply.types import DEDUCED

if TYPE_CHECKING:
    from kapilite.apply.types import Form, ListType, MapType, Type


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = _Absent()

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})


def same(left: Any, right: Any) -> bool:
    """Equality of JSON values: numbers by value, and `true` is no number."""
    if left is right:
        return True
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and len(left) == len(right)
            and all(same(item, right.get(name, ABSENT)) for name, item in left.items())
        )
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, bool) or isinstance(right, bool):
        return False
    return bool(left == right)


def fields(kind: Type, value: Any) -> FieldSet:
    """Every field of an object: the leaves, the items of lists, the keys of open maps."""
    return _fields(kind, value)[1]


def _fields(kind: Type, value: Any) -> tuple[bool, FieldSet]:
    """Whether the value is a leaf; else what lies beneath it."""
    form = kind.form(value)
    if form == "map" and kind.map and not kind.map.atomic:
        return False, _map_fields(kind.map, value) if isinstance(value, dict) else EMPTY
    if form == "list" and kind.list and kind.list.associative:
        return False, _list_fields(kind.list, value) if isinstance(value, list) else EMPTY
    return True, EMPTY


def _map_fields(kind: MapType, value: dict[str, Any]) -> FieldSet:
    members, children = set(), {}
    for name, child in value.items():
        element = f"f:{name}"
        is_leaf, below = _fields(child_type(kind, name), child)
        if is_leaf or child is None or child == {} or name not in kind.fields:
            members.add(element)
        if below:
            children[element] = below
    return FieldSet(frozenset(members), children)


def _list_fields(kind: ListType, value: list[Any]) -> FieldSet:
    children = {}
    found = elements_of(kind, value)
    count = Counter(found)
    for element, item in zip(found, value, strict=True):
        # Items that cannot be identified are owned as a whole.
        if count[element] == 1 and (below := _fields(kind.element, item)[1]):
            children[element] = below
    return FieldSet(frozenset(found), children)


def child_type(kind: MapType, name: str) -> Type:
    # A field that its schema does not know any more is still looked into.
    return kind.fields.get(name) or kind.element or DEDUCED


def named(kind: Type, owned: FieldSet) -> FieldSet:
    """The set together with the fields on the way to its members that the schema names."""
    members = set(owned.members)
    children = {}
    for element, below in owned.children.items():
        sub = DEDUCED
        if element.startswith("f:") and kind.map:
            name = element[2:]
            if name in kind.map.fields:
                members.add(element)
            sub = child_type(kind.map, name)
        elif element.startswith("k:") and kind.list:
            sub = kind.list.element
        children[element] = named(sub, below)
    return FieldSet(frozenset(members), children)


class Difference(NamedTuple):
    """What a change did to the fields of an object; no field is in two of the sets."""

    removed: FieldSet
    modified: FieldSet
    added: FieldSet

    @property
    def touched(self) -> FieldSet:
        return self.modified | self.added

    def without(self, ignored: FieldSet) -> Difference:
        return Difference(*(part.without(ignored) for part in self)) if ignored else self


def compare(kind: Type, left: Any, right: Any) -> Difference:
    walk = _Compare()
    walk.visit(kind, left, right, ())
    return Difference(*map(FieldSet.of, (walk.removed, walk.modified, walk.added)))


class _Compare:
    """Goes down both objects at once and notes the paths that differ."""

    def __init__(self) -> None:
        self.removed: list[Path] = []
        self.modified: list[Path] = []
        self.added: list[Path] = []

    def visit(self, kind: Type, left: Any, right: Any, path: Path) -> None:
        if right is ABSENT:
            is_leaf = self._as(kind.form(left), kind, left, right, path)
        else:
            form = kind.form(right)
            if left is not ABSENT and (other := kind.form(left)) != form:
                self._as(other, kind, left, right, path)
            is_leaf = self._as(form, kind, left, right, path)
        if is_leaf:
            return
        if left is ABSENT:
            self.added.append(path)
        elif right is ABSENT:
            self.removed.append(path)

    def _as(self, form: Form, kind: Type, left: Any, right: Any, path: Path) -> bool:
        """Compare in this form; whether it was a leaf."""
        if form == "map" and kind.map:
            before = left if isinstance(left, dict) else {}
            after = right if isinstance(right, dict) else {}
            if not kind.map.atomic and (before or after):
                self._maps(kind.map, before, after, path)
                return False
        elif form == "list" and kind.list:
            items_before = left if isinstance(left, list) else []
            items_after = right if isinstance(right, list) else []
            if kind.list.associative and (items_before or items_after):
                self._lists(kind.list, items_before, items_after, path)
                return False
        elif _misfit(kind, left) and _misfit(kind, right):
            raise SchemaMismatch(f"{_misfit(kind, left)}\n{_misfit(kind, right)}")
        if left is ABSENT:
            self.added.append(path)
        elif right is ABSENT:
            self.removed.append(path)
        elif not same(left, right):
            self.modified.append(path)
        return True

    def _maps(
        self, kind: MapType, before: dict[str, Any], after: dict[str, Any], path: Path
    ) -> None:
        for name, left in before.items():
            right = after.get(name, ABSENT)
            if left is right:
                continue
            if type(left) is type(right) and _alike(left, right):
                continue
            self.visit(child_type(kind, name), left, right, (*path, f"f:{name}"))
        for name, right in after.items():
            if name not in before:
                self.visit(child_type(kind, name), ABSENT, right, (*path, f"f:{name}"))

    def _lists(self, kind: ListType, before: list[Any], after: list[Any], path: Path) -> None:
        lefts, rights = _grouped(kind, before), _grouped(kind, after)
        for element in lefts | rights:
            left, right = lefts.get(element, []), rights.get(element, [])
            here = (*path, element)
            if len(left) < 2 and len(right) < 2:
                old, new = (left or [ABSENT])[0], (right or [ABSENT])[0]
                self.visit(kind.element, old, new, here)
            elif len(left) > 1 and len(right) > 1:
                if not same(left, right):
                    self.modified.append(here)
            elif len(left) > 1:
                if right:
                    self.visit(kind.element, ABSENT, right[0], here)
                self.removed.append(here)
            else:
                if left:
                    self.visit(kind.element, left[0], ABSENT, here)
                self.added.append(here)


def _alike(left: Any, right: Any) -> bool:
    """Whether two values of one type are surely the same, found out at the speed of C."""
    if type(left) in _SCALARS:
        return bool(left == right)
    # Unlike `==` this tells true from 1. It also tells apart what is only ordered differently, but
    # then the values are gone through one by one.
    return msgspec.json.encode(left) == msgspec.json.encode(right)


def _grouped(kind: ListType, items: list[Any]) -> dict[str, list[Any]]:
    groups: dict[str, list[Any]] = {}
    for element, item in zip(elements_of(kind, items), items, strict=True):
        groups.setdefault(element, []).append(item)
    return groups


def _misfit(kind: Type, value: Any) -> str:
    return "" if value is ABSENT or value is None else scalar_problem(kind, value)
