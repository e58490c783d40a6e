"""`format` of a text: what its clauses accept, and how they write a value.

As cel-go's second version of its library for strings has it, in English: `%f` separates thousands.
A text that is known beforehand is held against its arguments when the definition is created.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from kapilite.cel.functions import declare
from kapilite.cel.types import kind_of
from kapilite.cel.values import CelError, Duration, Timestamp, TypeValue
from kapilite.gotext.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Iterator

SIZE_LIMIT = 10_000_000
"""Characters that an expression may make from its object; more is no honest rule."""

_PRECISION_LIMIT = 255
"""Of more digits Kubernetes writes some other number."""

_DEFAULT_PRECISION = 6
_NAMED = ("NaN", "Infinity", "-Infinity")
_ANY = frozenset(
    {"list", "map", "int", "uint", "double", "bool", "string", "bytes", "type", "null_type"}
    | {"google.protobuf.Timestamp", "google.protobuf.Duration"}
)
ACCEPTED: dict[str, frozenset[str]] = {
    "s": _ANY,
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
    "o": frozenset({"int", "uint"}),
}
"""The types of values for each clause."""

_WHY = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
    "types, durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_CLAUSE = re.compile(r"(\.[0-9]*)?(.?)", re.DOTALL)


class Clause(NamedTuple):
    letter: str
    precision: int


def clauses(text: str, count: int) -> Iterator[str | Clause]:
    """The parts of a format with this many arguments; CelError where it has none."""
    at, used = 0, 0
    while (found := text.find("%", at)) >= 0:
        yield text[at:found]
        at = found + 1
        if text.startswith("%", at):
            yield "%"
            at += 1
            continue
        if used >= count:
            raise CelError(f"index {used} out of range")
        match = _CLAUSE.match(text, at)
        assert match is not None  # noqa: S101 - it matches the empty text
        yield _clause(match[1], match[2])
        at, used = match.end(), used + 1
    yield text[at:]


def _clause(precision: str | None, letter: str) -> Clause:
    if not letter and precision is None:
        raise CelError("unexpected end of string")
    parsing = "could not parse formatting clause"
    if precision is not None and (not letter or not 1 < len(precision) < 18):
        why = "could not find end of precision specifier" if not letter else "not an integer"
        raise CelError(f"{parsing}: error while parsing precision: {why}")
    if letter not in ACCEPTED:
        raise CelError(f'{parsing}: unrecognized formatting clause "{letter}"')
    digits = _DEFAULT_PRECISION if precision is None else int(precision[1:])
    if digits > _PRECISION_LIMIT:
        raise CelError(f"{parsing}: the precision is larger than {_PRECISION_LIMIT}")
    return Clause(letter, digits)


def refuse(letter: str, kind: str) -> CelError:
    """Why a value of this type does not go with a clause."""
    return CelError(f"error during formatting: {_WHY[letter.lower()]}, was given {kind}")


@declare("string.format(list(dyn)) string")
def _format(text: str, args: list[Any]) -> str:
    parts: list[str] = []
    rest = iter(args)
    size = 0
    for part in clauses(text, len(args)):
        parts.append(part if isinstance(part, str) else _formatted(part, next(rest)))
        size += len(parts[-1])
        if size > SIZE_LIMIT:
            raise CelError(f"the text would have more than {SIZE_LIMIT} characters")
    return "".join(parts)


def _formatted(clause: Clause, value: Any) -> str:
    kind = kind_of(value)
    letter = clause.letter
    if kind not in ACCEPTED[letter] or (
        letter in "fe" and kind == "string" and value not in _NAMED
    ):
        raise refuse(letter, kind)
    match letter:
        case "s":
            return shown(value)
        case "f" | "e":
            return _number(clause, float(value))
        case "x" | "X" if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if letter == "X" else digits
    return f"{int(value):{letter}}"


_SUPERSCRIPT = str.maketrans("+-0123456789", "⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _number(clause: Clause, value: float) -> str:
    value += 0.0  # of which negative zero becomes zero
    infinite = {math.inf: "∞", -math.inf: "-∞"}.get(value, "NaN")
    if clause.letter == "f":
        return f"{value:,.{clause.precision}f}" if math.isfinite(value) else infinite
    mantissa, _, exponent = f"{value:.{_DEFAULT_PRECISION}e}".partition("e")
    power = exponent.removeprefix("+").translate(_SUPERSCRIPT)
    text = f"{mantissa}\N{MULTIPLICATION SIGN}10{power}" if math.isfinite(value) else infinite
    return text.rjust(clause.precision)  # cel-go takes the precision for the width


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
            return _decoded(value)
        case list():
            return f"[{', '.join(map(_inner, value))}]"
        case dict():
            pairs = sorted((_inner(key), _inner(item)) for key, item in value.items())
            return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
        case TypeValue():
            return value.name
        case str() | int() | Timestamp() | Duration():
            return str(value)
    raise refuse("s", kind_of(value))


def _decoded(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error


def _inner(value: Any) -> str:
    """A value as it is written within a list or map: much as an expression would have it."""
    match value:
        case str():
            return _quoted(value)
        case bytes():
            return f"b{_quoted(_decoded(value))}"
        case float() if math.isfinite(value):
            return f"{value:.6f}"
        case float():
            return _quoted(number_text(value))
        case Timestamp():
            return f'timestamp("{value}")'
        case Duration():
            return f'duration("{value}")'
    return shown(value)


_ESCAPES = {
    **{
        ord(character): f"\\{letter}"
        for character, letter in zip("\a\b\f\n\r\t\v", "abfnrtv", strict=True)
    },
    ord("\\"): "\\\\",
    ord('"'): '\\"',
}


def _quoted(text: str) -> str:
    """As Go's `%q`."""
    return '"' + "".join(map(_quoted_character, text)) + '"'


def _quoted_character(character: str) -> str:
    code = ord(character)
    if code in _ESCAPES:
        return _ESCAPES[code]
    if character == " " or character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
