"""cel-go's extension library for strings, version 2, which Kubernetes has."""

from __future__ import annotations

from typing import Any

from kapilite.cel.formatting import SIZE_LIMIT
from kapilite.cel.functions import declare
from kapilite.cel.values import CelError
from kapilite.gotext.quoting import ESCAPES


@declare("string.charAt(int) string")
def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


@declare("string.indexOf(string) int", "string.indexOf(string, int) int")
def _index_of(text: str, part: str, start: int = 0) -> int:
    _not_negative(start)
    return text.find(part, start) if part else min(start, len(text))


@declare("string.lastIndexOf(string) int")
def _last_index_of(text: str, part: str) -> int:
    return text.rfind(part)


@declare("string.lastIndexOf(string, int) int")
def _last_index_before(text: str, part: str, start: int) -> int:
    _not_negative(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _not_negative(index: int) -> None:
    if index < 0:
        raise CelError(f"index out of range: {index}")


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


@declare("@strings.quote(string) string")
def _quote(text: str) -> str:
    return '"' + "".join(ESCAPES.get(character, character) for character in text) + '"'
