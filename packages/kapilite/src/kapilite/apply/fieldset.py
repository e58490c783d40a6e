"""Sets of fields, and FieldsV1, the form in which managedFields carry them.

A set is a tree: at each level the steps that are members themselves, and those that have members
beneath them. No branch is empty, so two sets are equal exactly when their trees are. Sets never
change, so they share branches; the operations only build what differs from what they were given.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kapilite.apply import elements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Path = tuple[str, ...]

_SELF: Final = "."
_DEPTH_LIMIT = 256
"""Deeper than any object that is let in."""


class MalformedFields(ValueError):  # noqa: N818 - named for what it is
    """FieldsV1 that cannot be read."""


class FieldSet:
    """An immutable set of field paths."""

    __slots__ = ("_hash", "children", "members")

    def __init__(
        self, members: frozenset[str] = frozenset(), children: Mapping[str, FieldSet] | None = None
    ) -> None:
        self.members = members
        self.children: Mapping[str, FieldSet] = children or {}
        self._hash: int | None = None

    @staticmethod
    def of(paths: Iterable[Path]) -> FieldSet:
        members = set()
        beneath: dict[str, list[Path]] = {}
        for path in paths:
            if len(path) == 1:
                members.add(path[0])
            elif path:  # no manager owns an object as a whole
                beneath.setdefault(path[0], []).append(path[1:])
        return FieldSet(frozenset(members), {e: FieldSet.of(sub) for e, sub in beneath.items()})

    @staticmethod
    def decode(fields: Any) -> FieldSet:
        """Read FieldsV1; raises MalformedFields. Sets that were read lately are found again."""
        try:
            return _decoded(msgspec.json.encode(fields))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise MalformedFields(f"fieldsV1 cannot be read: {error}") from None

    def encode(self) -> dict[str, Any]:
        """FieldsV1, sorted as Kubernetes sorts it."""
        fields: dict[str, Any] = {}
        for element in elements.ranked(self.members | self.children.keys()):
            below = self.children.get(element)
            if below is None:
                fields[element] = {}
            elif element in self.members:
                fields[element] = {_SELF: {}, **below.encode()}
            else:
                fields[element] = below.encode()
        return fields

    def __bool__(self) -> bool:
        return bool(self.members or self.children)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FieldSet):
            return NotImplemented
        return self is other or (
            self.members == other.members and dict(self.children) == dict(other.children)
        )

    def __hash__(self) -> int:
        # Of the whole tree: at the top, those of all objects of a kind are alike.
        if self._hash is None:
            self._hash = hash((self.members, frozenset(self.children.items())))
        return self._hash

    def __repr__(self) -> str:
        return f"FieldSet({', '.join(map(shown, self))})"

    def __contains__(self, path: object) -> bool:
        if not isinstance(path, tuple) or not path:
            return False
        here = self
        for element in path[:-1]:
            below = here.children.get(element)
            if below is None:
                return False
            here = below
        return path[-1] in here.members

    def __iter__(self) -> Iterator[Path]:
        """Every path, those of a level before those beneath it."""
        for element in elements.ranked(self.members):
            yield (element,)
        for element in elements.ranked(self.children):
            for path in self.children[element]:
                yield (element, *path)

    def below(self, element: str) -> FieldSet:
        """The paths that begin with this step, without it."""
        return self.children.get(element, EMPTY)

    def __or__(self, other: FieldSet) -> FieldSet:
        if not other or self is other:
            return self
        if not self:
            return other
        children = dict(self.children)
        for element, theirs in other.children.items():
            ours = children.get(element)
            children[element] = theirs if ours is None else ours | theirs
        return FieldSet(self.members | other.members, children)

    def __and__(self, other: FieldSet) -> FieldSet:
        children = {}
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            if theirs is not None and (common := ours & theirs):
                children[element] = common
        return FieldSet(self.members & other.members, children)

    def __sub__(self, other: FieldSet) -> FieldSet:
        if not other:
            return self
        children = {}
        for element, ours in self.children.items():
            theirs = other.children.get(element)
            if rest := (ours if theirs is None else ours - theirs):
                children[element] = rest
        return FieldSet(self.members - other.members, children)

    def without(self, other: FieldSet) -> FieldSet:
        """The difference that also takes away what lies beneath a member of the other set."""
        if not other:
            return self
        children = {}
        for element, ours in self.children.items():
            if element in other.members:
                continue
            theirs = other.children.get(element)
            if rest := (ours if theirs is None else ours.without(theirs)):
                children[element] = rest
        return FieldSet(self.members - other.members, children)


EMPTY = FieldSet()


def shown(path: Path) -> str:
    """`.spec.ports[port=80]`, as messages write it."""
    return "".join(map(elements.shown, path))


@functools.lru_cache(maxsize=2048)
def _decoded(text: bytes) -> FieldSet:
    return _read(msgspec.json.decode(text), _DEPTH_LIMIT)[0]


def _read(fields: Any, depth: int) -> tuple[FieldSet, bool]:
    """The set beneath a step, and whether the step is a member itself."""
    if fields is None:
        return EMPTY, True
    if not isinstance(fields, dict) or not depth:
        raise MalformedFields("a set of fields is an object of objects")
    members: set[str] = set()
    children: dict[str, FieldSet] = {}
    for text, beneath in fields.items():
        element = None if text == _SELF else elements.decode(text)
        if element is None:
            continue
        below, is_member = _read(beneath, depth - 1)
        if is_member:
            members.add(element)
        if below:
            children[element] = children[element] | below if element in children else below
    found = FieldSet(frozenset(members), children)
    return found, _SELF in fields or not found
