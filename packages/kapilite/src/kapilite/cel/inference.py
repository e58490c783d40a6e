"""Which types fit together, and what the free ones among them stand for.

As in cel-go: a signature gets fresh type variables each time that it is tried, and so do empty
lists and maps. What a variable stands for is found by the first type that it meets, and becomes
more general when it meets a more general one. `dyn` fits everything and everything fits it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.cel.types import DYN, NULL, ObjectType, Type, is_variable

if TYPE_CHECKING:
    from collections.abc import Sequence


class Inference:
    """What the type variables of one expression stand for."""

    def __init__(self) -> None:
        self._bound: dict[str, Type] = {}
        self._changes: list[tuple[str, Type | None]] = []
        self._count = 0

    def fresh(self) -> Type:
        """A type variable that stands for nothing yet."""
        self._count += 1
        return Type(f"_{self._count}")

    def renamed(self, kinds: Sequence[Type]) -> list[Type]:
        """The types of a signature with variables of their own."""
        names: dict[str, Type] = {}

        def rename(kind: Type) -> Type:
            if is_variable(kind):
                return names.setdefault(kind.name, self.fresh())
            return _with(kind, [rename(param) for param in kind.params]) if kind.params else kind

        return [rename(kind) for kind in kinds]

    def assign(self, found: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether these types can be passed where those are; only then variables are bound."""
        if len(found) != len(wanted):
            return False
        before = len(self._changes)
        if all(self._fits(one, two) for one, two in zip(found, wanted, strict=True)):
            return True
        while len(self._changes) > before:
            name, kind = self._changes.pop()
            if kind is None:
                del self._bound[name]
            else:
                self._bound[name] = kind
        return False

    def join(self, before: Type, found: Type) -> Type | None:
        """The type of both together; None where they do not go together."""
        return _more_general(before, found) if self.assign([before], [found]) else None

    def resolved(self, kind: Type, *, is_final: bool = False) -> Type:
        """A type with its variables replaced; at the end those that are free are `dyn`."""
        if is_variable(kind):
            found = self._bound.get(kind.name)
            if found is not None:
                return self.resolved(found, is_final=is_final)
            return DYN if is_final else kind
        if not kind.params:
            return kind
        return _with(kind, [self.resolved(param, is_final=is_final) for param in kind.params])

    def _fits(self, found: Type, wanted: Type) -> bool:
        if is_variable(wanted):
            fits, was_bound = self._stands_for(wanted, found)
            if fits or was_bound:
                return fits
        if is_variable(found):
            return self._stands_for(found, wanted)[0]
        if DYN in (found, wanted):
            return True
        if found == NULL:
            return is_nullable(wanted)
        if wanted == NULL:
            return is_nullable(found)
        if found.name == "type" or isinstance(found, ObjectType) or isinstance(wanted, ObjectType):
            return found.name == wanted.name if found.name == "type" else found == wanted
        return (
            found.name == wanted.name
            and len(found.params) == len(wanted.params)
            and all(map(self._fits, found.params, wanted.params))
        )

    def _stands_for(self, variable: Type, kind: Type) -> tuple[bool, bool]:
        """Whether the variable can stand for a type, and whether it stood for one before."""
        if variable == kind:
            return True, True
        before = self._bound.get(variable.name)
        if before is not None:
            if kind == before:
                return True, True
            if not self._fits(kind, before):
                return False, True
            kind = _more_general(kind, before)
        if self._occurs(variable, kind):
            return before is not None, before is not None
        self._changes.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = kind
        return True, before is not None

    def _occurs(self, variable: Type, kind: Type) -> bool:
        if kind == variable:
            return True
        if is_variable(kind):
            found = self._bound.get(kind.name)
            return found is not None and self._occurs(variable, found)
        return any(self._occurs(variable, param) for param in kind.params)


def _with(kind: Type, params: Sequence[Type]) -> Type:
    return Type(kind.name, tuple(params))


def _more_general(one: Type, two: Type) -> Type:
    return one if _is_more_general(one, two) else two


def _is_more_general(one: Type, two: Type) -> bool:
    if one == DYN or is_variable(one):
        return True
    if two == DYN or is_variable(two):
        return False
    if one.name == "type" or isinstance(one, ObjectType):
        return one.name == two.name if one.name == "type" else one == two
    return (
        one.name == two.name
        and len(one.params) == len(two.params)
        and all(map(_is_more_general, one.params, two.params))
    )


def is_nullable(kind: Type) -> bool:
    """Null is also a value of messages, which objects and these are."""
    return (
        kind == NULL
        or isinstance(kind, ObjectType)
        or "." in kind.name
        or kind.name == "optional_type"
    )


def is_same(one: Type, two: Type) -> bool:
    """Whether both types are the same, whatever their variables are called."""
    if is_variable(one) and is_variable(two):
        return True
    if isinstance(one, ObjectType) or isinstance(two, ObjectType) or not one.params:
        return one == two
    return (
        one.name == two.name
        and len(one.params) == len(two.params)
        and all(map(is_same, one.params, two.params))
    )
