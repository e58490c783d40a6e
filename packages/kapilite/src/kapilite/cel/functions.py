"""Functions by name: their signatures for the checker, their implementations for the evaluation.

A function is declared by its signature as text: `string.contains(string) bool` is called as
`s.contains(t)`, `size(string) int` as `size(s)`. Which of several applies is decided by the kinds
of the arguments. Implementations raise `CelError` where there is no value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kapilite.cel.types import DYN, Type, is_variable, kind_of, parse_type

Implementation = Callable[..., Any]
_F = TypeVar("_F", bound=Implementation)


class Overload(NamedTuple):
    params: tuple[Type, ...]
    result: Type
    is_member: bool
    run: Implementation
    kinds: tuple[str, ...]
    """What each argument must be when it is evaluated; empty takes anything."""


OVERLOADS: dict[str, list[Overload]] = defaultdict(list)

_FLAT = r"[^()]*(?:\([^()]*\)[^()]*)*"
_PARAMS = rf"\((?P<params>[^()]*(?:\({_FLAT}\)[^()]*)*)\) (?P<result>.+)"
_SIGNATURE = re.compile(r"(?:(?P<target>.+)\.)?(?P<name>@?[A-Za-z0-9_]+)" + _PARAMS)
_OPERATOR = re.compile(r"(?P<name>_[^\s(]*|@in|[!-]_)" + _PARAMS)


def declare(*signatures: str) -> Callable[[_F], _F]:
    """Add a function under these signatures."""

    def add(run: _F) -> _F:
        for text in signatures:
            name, overload = _parse(text, run)
            OVERLOADS[name].append(overload)
        return run

    return add


def declare_evaluated(*signatures: str) -> None:
    """Add what the evaluation itself does, for the checker."""
    for text in signatures:
        name, overload = _parse(text, _evaluated)
        OVERLOADS[name].append(overload)


def _evaluated(*_: Any) -> Any:
    raise AssertionError("evaluated elsewhere")


NAMESPACES = frozenset({"optional", "strings", "sets", "format", "ip", "lists"})
"""What may stand before a function's name without being a value."""


def _parse(text: str, run: Implementation) -> tuple[str, Overload]:
    match = _OPERATOR.fullmatch(text) or _SIGNATURE.fullmatch(text)
    assert match is not None, text  # noqa: S101 - signatures are ours
    parts = match.groupdict()
    target = parts.get("target")
    params = [parse_type(part) for part in _split(parts["params"])]
    name = parts["name"]
    is_member = bool(target) and target not in _STATIC
    if is_member:
        params.insert(0, parse_type(str(target)))
    elif target:
        name = f"{_STATIC[str(target)]}.{name}"
    kinds = tuple("" if kind == DYN or is_variable(kind) else kind.name for kind in params)
    return name, Overload(tuple(params), parse_type(parts["result"]), is_member, run, kinds)


_STATIC = {f"@{name}": name for name in NAMESPACES}


def _split(params: str) -> list[str]:
    """Separated at the commas outside parentheses."""
    parts, depth, current = [], 0, ""
    for character in params:
        depth += (character == "(") - (character == ")")
        if character == "," and not depth:
            parts.append(current)
            current = ""
        else:
            current += character
    return [part.strip() for part in [*parts, current] if part.strip()]


def find(name: str, args: list[Any], *, is_member: bool) -> Overload | None:
    """The overload for these values."""
    kinds = [kind_of(arg) for arg in args]
    for overload in OVERLOADS.get(name, ()):
        if (
            overload.is_member == is_member
            and len(overload.kinds) == len(kinds)
            and all(a in ("", b) for a, b in zip(overload.kinds, kinds, strict=True))
        ):
            return overload
    return None
