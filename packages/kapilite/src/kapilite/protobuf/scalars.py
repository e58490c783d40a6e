"""Values whose JSON form is not simply that of their protobuf field."""

from __future__ import annotations

import base64
import math
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.protobuf import wire
from kapilite.protobuf.wire import MalformedError
from kubebasics.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME = -62135596800
"""Year 1, which is how Go writes a time that is not set."""
_UNITS = ((3600, "h"), (60, "m"))


def text(body: bytes) -> str:
    """A string; invalid UTF-8 is refused, as it could not be stored."""
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise MalformedError("a string is not UTF-8") from error


def numbers(body: bytes) -> dict[int, int | bytes]:
    """The fields of a small message, the last of each number."""
    return {number: value for number, _, value in wire.fields(body)}


def _integer(found: dict[int, int | bytes], number: int, bits: int) -> int:
    value = found.get(number, 0)
    if not isinstance(value, int):
        raise MalformedError(f"field {number} is not a number")
    return wire.signed(value, bits)


def _moment(body: bytes) -> datetime | None:
    found = numbers(body)
    seconds, nanos = _integer(found, 1, 64), _integer(found, 2, 32)
    if seconds == _ZERO_TIME or not found:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError as error:
        raise MalformedError("a time is out of range") from error


def _time(body: bytes) -> str | None:
    when = _moment(body)
    return timestamp(when) if when else None


def _micro_time(body: bytes) -> str | None:
    when = _moment(body)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ") if when else None


def _duration(body: bytes) -> str:
    """As Go writes it: `1h0m0s`, `1.5s`."""
    nanos = _integer(numbers(body), 1, 64)
    sign, nanos = ("-", -nanos) if nanos < 0 else ("", nanos)
    whole, rest = divmod(nanos, 10**9)
    if not whole and rest:
        unit, size = ("ns", 1) if rest < 10**3 else ("µs", 10**3) if rest < 10**6 else ("ms", 10**6)
        return f"{sign}{_fraction(rest, size)}{unit}"
    found = ""
    for size, unit in _UNITS:
        count, whole = divmod(whole, size)
        found += f"{count}{unit}" if count or found else ""
    return f"{sign}{found}{_fraction(whole * 10**9 + rest, 10**9)}s"


def _fraction(value: int, size: int) -> str:
    whole, rest = divmod(value, size)
    digits = f"{rest:0{int(math.log10(size))}d}".rstrip("0") if rest else ""
    return f"{whole}.{digits}" if digits else f"{whole}"


def _quantity(body: bytes) -> str:
    value = numbers(body).get(1, b"")
    if not isinstance(value, bytes):
        raise MalformedError("a quantity is not a string")
    return text(value) or "0"


def _int_or_string(body: bytes) -> int | str:
    found = numbers(body)
    value = found.get(3, b"")
    if _integer(found, 1, 64) == 0:
        return _integer(found, 2, 32)
    if not isinstance(value, bytes):
        raise MalformedError("a text is not a string")
    return text(value)


def _raw(body: bytes) -> Any:
    """JSON in a message with one field of bytes."""
    value = numbers(body).get(1, b"")
    if not isinstance(value, bytes):
        raise MalformedError("embedded JSON is not bytes")
    if not value:
        return None
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"embedded JSON cannot be decoded: {error}") from error


MESSAGES: Mapping[str, Callable[[bytes], Any]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "Duration": _duration,
    "Quantity": _quantity,
    "IntOrString": _int_or_string,
    "FieldsV1": _raw,
    "RawExtension": _raw,
    "JSON": _raw,
    "bytes": lambda body: base64.b64encode(body).decode(),
    "string": text,
}
"""What is written as a length and bytes."""

NUMBERS: Mapping[str, Callable[[int], Any]] = {
    "bool": bool,
    "int32": lambda value: wire.signed(value, 32),
    "int64": lambda value: wire.signed(value, 64),
}
"""What is written as a number."""
