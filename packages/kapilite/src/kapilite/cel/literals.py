"""What is wrong with constants of an expression, said before it ever runs.

As Kubernetes has it: a time, a duration, a pattern or a format that is written out must be valid, a
conversion of a constant must have a value, and members of a literal are of one type but in
arguments of `format`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.cel import formatting
from kapilite.cel.functions import find
from kapilite.cel.inference import is_same
from kapilite.cel.program import CostExceeded, constant
from kapilite.cel.syntax import (
    Call,
    CelSyntaxError,
    Ident,
    Index,
    ListOf,
    Literal,
    MapOf,
    Node,
    Select,
    children,
    qualified,
    show,
)
from kapilite.cel.types import DYN, TYPE_NAMES, Type, kind_of, shown
from kapilite.cel.values import CelError
from kapilite.schemas import regex

if TYPE_CHECKING:
    from collections.abc import Mapping

_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_PATTERNS = ("matches", "find", "findAll")


def refuse_wrong(text: str, node: Node, types: Mapping[int, Type]) -> None:
    """Raise CelSyntaxError at the first constant that is wrong."""
    _Literals(text, types).look(node, in_format=False)


class _Literals:
    def __init__(self, text: str, types: Mapping[int, Type]) -> None:
        self._text = text
        self._types = types

    def _error(self, node: Node, why: str) -> CelSyntaxError:
        return CelSyntaxError(show(self._text, node.at, why))

    def look(self, node: Node, *, in_format: bool) -> bool:
        """Whether a node is constant; all below it is looked at as well."""
        is_format = in_format or (isinstance(node, Call) and node.function == "format")
        below = [self.look(child, in_format=is_format) for child in children(node)]
        match node:
            case ListOf():
                if not in_format:
                    self._same([item for item, _ in node.items], [flag for _, flag in node.items])
                return all(below) and not any(flag for _, flag in node.items)
            case MapOf():
                if not in_format:
                    flags = [flag for *_, flag in node.entries]
                    self._same([key for key, *_ in node.entries], [False] * len(flags))
                    self._same([value for _, value, _ in node.entries], flags)
                return all(below) and not any(flag for *_, flag in node.entries)
            case Index():
                self._key(node.key, is_constant=below[1])
                return False
            case Call():
                return self._call(node, below)
            case Ident() | Select():
                is_type = qualified(node) in TYPE_NAMES
                if (
                    isinstance(node, Ident)
                    and self._types.get(id(node), DYN).name == "type"
                    and not is_type
                ):
                    # Kubernetes takes a variable that is a type for the name of one.
                    raise self._error(node, f"reference to undefined type: {node.name}")
                return is_type
        return isinstance(node, Literal)

    def _same(self, nodes: list[Node], optional: list[bool]) -> None:
        first: Type | None = None
        for node, is_optional in zip(nodes, optional, strict=True):
            found = self._types[id(node)]
            found = found.params[0] if is_optional else found
            if first is not None and not is_same(first, found):
                why = f"expected type '{shown(first)}' but found '{shown(found)}'"
                raise self._error(node, why)
            first = first or found

    def _key(self, node: Node, *, is_constant: bool) -> None:
        if is_constant and not isinstance(found := constant(node), str | int | float | bool):
            raise self._error(node, f"invalid qualifier type: {kind_of(found)}")

    def _call(self, node: Call, below: list[bool]) -> bool:
        name = node.function
        if name in ("duration", "timestamp", "matches") and node.args:
            self._argument(name, node.args[0])
        if name == "format" and isinstance(node.target, Literal) and len(node.args) == 1:
            self._format(node, node.target.value, node.args[0])
        if name in _PATTERNS and len(below) > 1 and below[1]:
            pattern = constant(node.args[0] if node.target is not None else node.args[1])
            self._pattern(node, pattern)
        if name not in _CONVERSIONS or node.target is not None or below != [True]:
            return False
        try:
            constant(node)
        except (CelError, CostExceeded) as error:
            raise self._error(node, str(error)) from error
        return True

    def _argument(self, name: str, node: Node) -> None:
        """The first argument of a function, as it is written there."""
        if not isinstance(node, Literal):
            return
        if name == "matches":
            if isinstance(node.value, str) and not _is_pattern(node.value):
                raise self._error(node, f"invalid {name} argument")
            return
        try:
            overload = find(name, [node.value], is_member=False)
            if overload is not None:
                overload.run(node.value)
        except CelError as error:
            raise self._error(node, f"invalid {name} argument") from error

    def _pattern(self, node: Node, pattern: Any) -> None:
        if isinstance(pattern, str) and not _is_pattern(pattern):
            raise self._error(node, f"error parsing regexp: `{pattern}`")

    def _format(self, node: Call, text: Any, args: Node) -> None:
        if not isinstance(text, str) or not isinstance(args, ListOf):
            return
        given = [item for item, _ in args.items]
        try:
            parts = formatting.clauses(text, len(given))
            letters = [part.letter for part in parts if not isinstance(part, str)]
        except CelError as error:
            raise self._error(node, str(error)) from error
        if len(letters) < len(given):
            why = (
                "too many arguments supplied to string.format "
                f"(expected {len(letters)}, got {len(given)})"
            )
            raise self._error(node, why)
        for letter, item in zip(letters, given, strict=True):
            self._accepts(letter, item)

    def _accepts(self, letter: str, node: Node) -> None:
        found = self._types[id(node)]
        if found != DYN and found.name not in formatting.ACCEPTED[letter]:
            raise self._error(node, str(formatting.refuse(letter, shown(found))))
        if letter == "s" and isinstance(node, ListOf | MapOf):
            for part in children(node):
                self._accepts(letter, part)


def _is_pattern(text: str) -> bool:
    try:
        regex.compiled(text)
    except ValueError:
        return False
    return True
