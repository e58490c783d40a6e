"""Values as Go compares and prints them, where columns show it."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from kapilite.gotext.numbers import json_number, number_text

_ESCAPE = re.compile(
    r"""\\(?:([abfnrtv\\'"])|x([0-9a-fA-F]{2})|([0-7]{3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))""",
)
_SHORT = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_UNSAFE = re.compile("[<>&\u2028\u2029]")
_NAMES = {str: "string", bool: "bool", int: "int", float: "float"}


class ByteOfText(int):
    """A byte of a text, which Go has where something goes over a text."""


def compare(left: Any, operator: str, right: Any) -> bool | None:
    """What Go's templates make of a comparison; None of one that they refuse."""
    kind = _kind(left)
    if kind is None or kind != _kind(right):
        return None
    if operator in ("==", "!="):
        return bool((left == right) == (operator == "=="))
    if kind == "bool":
        return None
    match operator:
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
        case ">=":
            return bool(left >= right)
    return None


def _kind(value: Any) -> str | None:
    return "int" if isinstance(value, ByteOfText) else _NAMES.get(type(value))


def unquote(text: str) -> str | None:
    """The text in a pair of quotes, single or double; None where Go refuses it."""
    quote, text = text[0], text[1:-1]
    if "\\" not in text:
        return None if quote in text else text
    found = bytearray()
    at = 0
    while at < len(text):
        if text[at] == quote:
            return None
        if text[at] != "\\":
            found += text[at].encode(errors="replace")
            at += 1
            continue
        match = _ESCAPE.match(text, at)
        if match is None or match[1] in {'"', "'"} - {quote}:
            return None
        at = match.end()
        if match[1]:
            found += _SHORT[match[1]].encode()
        elif match[2] or match[3]:
            code = int(match[2], 16) if match[2] else int(match[3], 8)
            if code > 0xFF:
                return None
            found += bytes([code])
        else:
            code = int(match[4] or match[5], 16)
            if code > 0x10FFFF or 0xD800 <= code < 0xE000:
                return None
            found += chr(code).encode()
    return found.decode(errors="replace")


def text_of(value: Any) -> str:
    """A value as a column of texts shows it."""
    match value:
        case None:
            return "<no value>"
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case dict() | list():
            text = msgspec.json.encode(_numbers(value), order="sorted").decode()
            return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return number_text(value)


def _numbers(value: Any) -> Any:
    """The value with its numbers as Go writes them in JSON."""
    if isinstance(value, float):
        return msgspec.Raw(json_number(value).encode())
    if isinstance(value, dict):
        return {key: _numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_numbers(inner) for inner in value]
    return value
