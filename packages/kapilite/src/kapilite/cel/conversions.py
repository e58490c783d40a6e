"""The functions of the CEL specification that make a value of one type of one of another."""

from __future__ import annotations

import math
import re
from typing import Any

from kapilite.cel import values
from kapilite.cel.functions import declare
from kapilite.cel.standard import unsigned, whole
from kapilite.cel.values import SECOND, CelError, Duration, Timestamp, UInt
from kapilite.gotext.numbers import number_text


@declare("int(int) int", "int(uint) int")
def _int(value: int) -> int:
    return whole(int(value))


@declare("int(double) int")
def _int_of_double(value: float) -> int:
    if not -(2.0**63) < value < 2.0**63:
        raise CelError("integer overflow")
    return int(value)


@declare("int(string) int")
def _int_of_text(text: str) -> int:
    return whole(_digits(text, "int"))


@declare("int(timestamp) int")
def _int_of_time(value: Timestamp) -> int:
    return value.ns // SECOND


@declare("int(duration) int")
def _int_of_duration(value: Duration) -> int:
    return value.ns


def _digits(text: str, kind: str) -> int:
    body = text[1:] if text[:1] in ("-", "+") else text
    if not (body.isascii() and body.isdigit()) or len(body) > 40:
        raise CelError(f"type conversion error from 'string' to '{kind}'")
    return int(text)


@declare("uint(int) uint", "uint(uint) uint")
def _uint(value: int) -> UInt:
    return unsigned(int(value))


@declare("uint(double) uint")
def _uint_of_double(value: float) -> UInt:
    if not math.isfinite(value) or value < 0:
        raise CelError("unsigned integer overflow")
    return unsigned(int(value))


@declare("uint(string) uint")
def _uint_of_text(text: str) -> UInt:
    if text.startswith(("-", "+")):
        raise CelError("type conversion error from 'string' to 'uint'")
    return unsigned(_digits(text, "uint"))


@declare("double(int) double", "double(uint) double", "double(double) double")
def _double(value: float) -> float:
    return float(value)


_DOUBLE = re.compile(r"[+-]?(?:[0-9_.]+(?:e[+-]?[0-9_]+)?|inf|infinity)|nan", re.IGNORECASE)
_HEXADECIMAL = re.compile(r"[+-]?0x[0-9a-f]*+\.?[0-9a-f]*p[+-]?[0-9]+", re.IGNORECASE)


@declare("double(string) double")
def _double_of_text(text: str) -> float:
    try:
        if _HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
        found = float(text) if _DOUBLE.fullmatch(text) else None
    except (ValueError, OverflowError):
        found = None
    if found is None or (math.isinf(found) and "n" not in text.lower()):
        raise CelError("type conversion error from 'string' to 'double'")
    return found


@declare("bool(bool) bool")
def _bool(value: bool) -> bool:
    return value


_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_FALSE = ("0", "f", "F", "false", "FALSE", "False")


@declare("bool(string) bool")
def _bool_of_text(text: str) -> bool:
    if text not in _TRUE + _FALSE:
        raise CelError("type conversion error from 'string' to 'bool'")
    return text in _TRUE


@declare("bytes(bytes) bytes")
def _bytes(value: bytes) -> bytes:
    return value


@declare("bytes(string) bytes")
def _bytes_of_text(text: str) -> bytes:
    return text.encode()


@declare("string(string) string", "string(int) string", "string(uint) string")
@declare("string(timestamp) string", "string(duration) string")
def _string(value: Any) -> str:
    return str(value)


@declare("string(bool) string")
def _string_of_bool(value: bool) -> str:
    return "true" if value else "false"


declare("string(double) string")(number_text)


@declare("string(bytes) string")
def _string_of_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise CelError("invalid UTF-8 in bytes, cannot convert to string") from error


@declare("timestamp(timestamp) timestamp")
def _timestamp(value: Timestamp) -> Timestamp:
    return value


declare("timestamp(string) timestamp")(values.parse_timestamp)
declare("duration(string) duration")(values.parse_duration)


@declare("timestamp(int) timestamp")
def _timestamp_of_int(seconds: int) -> Timestamp:
    return values.timestamp(seconds * SECOND)


@declare("duration(duration) duration")
def _duration(value: Duration) -> Duration:
    return value
