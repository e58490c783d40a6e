"""cel-go's extension library for strings, version 2, which Kubernetes has."""

from __future__ import annotations

import math
from typing import Any

from kapilite.cel.functions import declare
from kapilite.cel.types import kind_of
from kapilite.cel.values import CelError, Duration, Timestamp, TypeValue
from kapilite.gotext.numbers import number_text

SIZE_LIMIT = 10_000_000
"""Characters that an expression may make from its object; more is no honest rule."""


@declare("string.charAt(int) string")
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@declare("string.indexOf(string) int", "string.indexOf(string, int) int")
def _index_of(text: str, part: str, start: int = 0) -> int:
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    return text.find(part, start)


@declare("string.lastIndexOf(string) int")
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@declare("string.lastIndexOf(string, int) int")
def _last_index_before(text: str, part: str, end: int) -> int:
    if not 0 <= end <= len(text):
        raise CelError(f"index out of range: {end}")
    return text.rfind(part, 0, end + len(part))


_UPPER = str.maketrans("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


@declare("string.lowerAscii() string")
def _lower(text: str) -> str:
    return text.translate(_LOWER)


@declare("string.upperAscii() string")
def _upper(text: str) -> str:
    return text.translate(_UPPER)


declare("string.trim() string")(str.strip)


@declare("string.replace(string, string) string", "string.replace(string, string, int) string")
def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(count, text.count(old))
    _bounded(len(text) + times * len(new))
    return text.replace(old, new, count)


def _bounded(size: int) -> None:
    if size > SIZE_LIMIT:
        raise CelError(f"the text would have more than {SIZE_LIMIT} characters")


@declare("string.split(string) list(string)", "string.split(string, int) list(string)")
def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if not separator:
        parts = list(text)
        return (
            parts
            if limit < 0 or len(parts) <= limit
            else [
                *parts[: limit - 1],
                "".join(parts[limit - 1 :]),
            ]
        )
    return text.split(separator, limit - 1 if limit > 0 else -1)


@declare("string.substring(int) string", "string.substring(int, int) string")
def _substring(text: str, start: int, end: int | None = None) -> str:
    stop = len(text) if end is None else end
    if not 0 <= start <= len(text):
        raise CelError(f"index out of range: {start}")
    if not 0 <= stop <= len(text):
        raise CelError(f"index out of range: {stop}")
    if start > stop:
        raise CelError(f"invalid substring range. start: {start}, end: {stop}")
    return text[start:stop]


@declare("list(string).join() string", "list(string).join(string) string")
def _join(parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if not isinstance(part, str):
            raise CelError("no such overload")
    _bounded(sum(map(len, parts)) + len(parts) * len(separator))
    return separator.join(parts)


@declare("string.reverse() string")
def _reverse(text: str) -> str:
    return text[::-1]


_QUOTED = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}


@declare("@strings.quote(string) string")
def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(character, character) for character in text) + '"'


@declare("string.format(list(dyn)) string")
def _format(text: str, args: list[Any]) -> str:
    parts: list[str] = []
    rest, used = text, 0
    while "%" in rest:
        before, _, rest = rest.partition("%")
        parts.append(before)
        if rest.startswith("%"):
            parts.append("%")
            rest = rest[1:]
            continue
        precision, rest = _precision(rest)
        if used >= len(args):
            raise CelError(f"index {used} out of range")
        parts.append(_formatted(rest[:1], precision, args[used]))
        rest, used = rest[1:], used + 1
        _bounded(sum(map(len, parts)))
    return "".join([*parts, rest])


def _precision(rest: str) -> tuple[int, str]:
    if not rest.startswith("."):
        return 6, rest
    digits = len(rest) - len(rest[1:].lstrip("0123456789"))
    if not 1 < digits < 5:
        raise CelError("error while parsing precision")
    return min(int(rest[1:digits]), 1000), rest[digits:]


def _formatted(clause: str, precision: int, value: Any) -> str:
    kind = kind_of(value)
    match clause, kind:
        case "s", _:
            return shown(value)
        case "d", "int" | "uint":
            return str(value)
        case "d" | "f" | "e", "double" if not math.isfinite(value):
            return number_text(value)
        case "f" | "e", "int" | "uint" | "double":
            return f"{float(value):.{precision}{clause}}"
        case "b", "bool":
            return "1" if value else "0"
        case "b" | "o", "int" | "uint":
            return f"{value:{clause}}"
        case "x" | "X", "int" | "uint":
            return f"{value:{clause}}"
        case "x" | "X", "string" | "bytes":
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if clause == "X" else digits
    raise CelError(f'could not parse formatting clause "%{clause}" for {kind}')


def shown(value: Any) -> str:
    """A value as `%s` writes it."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            return number_text(value)
        case bytes():
            return value.decode(errors="replace")
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            pairs = sorted((shown(key), shown(item)) for key, item in value.items())
            return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
        case TypeValue():
            return value.name
        case str() | int() | Timestamp() | Duration():
            return str(value)
    raise CelError(f"no string form for {kind_of(value)}")
