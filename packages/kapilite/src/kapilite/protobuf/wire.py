"""The wire format of protobuf: a message is a row of numbered values.

Everything that the format cannot mean is a `MalformedError`: bytes come from outside, and a message
that is cut short or runs over its end must never be half understood.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class MalformedError(ValueError):
    """These bytes are no message."""


class Part(NamedTuple):
    """One field on the wire; fixed numbers are left as their bytes."""

    number: int
    kind: int
    value: int | bytes


def fields(body: bytes) -> Iterator[Part]:
    """Every field of a message, in the order in which they were written."""
    at = 0
    while at < len(body):
        key, at = _varint(body, at)
        number, kind = key >> 3, key & 7
        value: int | bytes
        if number == 0 or number >= 1 << 29:
            raise MalformedError(f"illegal field number {number}")
        if kind == VARINT:
            value, at = _varint(body, at)
        elif kind in (BYTES, FIXED64, FIXED32):
            size = {FIXED64: 8, FIXED32: 4}.get(kind, 0)
            if kind == BYTES:
                size, at = _varint(body, at)
            if size > len(body) - at:
                raise MalformedError("unexpected end of the message")
            value, at = body[at : at + size], at + size
        else:
            raise MalformedError(f"illegal wire type {kind}")
        yield Part(number, kind, value)


def packed(body: bytes) -> Iterator[int]:
    """The numbers of a packed list."""
    at = 0
    while at < len(body):
        value, at = _varint(body, at)
        yield value


def signed(value: int, bits: int) -> int:
    """A number as two's complement has it, cut to a width as Go does."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def double(value: bytes) -> float:
    """A floating-point number of eight bytes."""
    found: float = struct.unpack("<d", value)[0]
    return found


def _varint(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_LONGEST_VARINT):
        if at + place >= len(body):
            raise MalformedError("unexpected end of the message")
        byte = body[at + place]
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + place + 1
    raise MalformedError("a number is too long")
