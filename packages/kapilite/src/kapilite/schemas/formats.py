"""The string formats that Kubernetes checks; all others mean nothing and are let pass.

Each accepts exactly what Kubernetes accepts, which for some is not what a standard says: a
`byte` must not be empty, a `duration` may be `2 weeks`.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from typing import TYPE_CHECKING

from kapilite.gotext.urls import is_request_uri
from kapilite.schemas import regex
from kapilite.schemas.mail import is_mail_address

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def is_format(name: str, text: str) -> bool:
    """Whether a text has the format; true where the format is not known."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


def effective(schema: dict[str, Any]) -> str:
    """The format of a schema, where it has one that counts for its type; otherwise empty."""
    name: str = schema.get("format", "")
    if not name:
        return ""
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    if kind in _NUMERIC:
        return name if name in _NUMERIC[kind] else ""
    return name if kind in ("", "string") and name.replace("-", "") in _KNOWN else ""


def _like(pattern: str) -> Callable[[str], bool]:
    # Not compiled before it is needed: most formats never are.
    return lambda text: re.fullmatch(pattern, text, re.ASCII) is not None


_C = r"[a-zA-Z0-9\p{S}\p{L}]"
_LABEL = rf"{_C}(?:[a-zA-Z0-9\p{{S}}\p{{L}}-]{{0,61}}{_C})?"
_HOSTNAME = rf"^(?:{_C}(?:-?{_C}{{0,62}})?|(?:{_LABEL}\.)+[a-zA-Z\p{{L}}]{{2,63}})$"


def _hostname(text: str) -> bool:
    return (
        len(text.encode()) <= 255
        and all(len(label.encode()) <= 63 for label in text.split("."))
        and regex.compiled(_HOSTNAME).search(text) is not None
    )


_LEADING_ZEROS = re.compile(r"(^|[.:])(?=\d++(?:\.|$))0+(?=\d)")


def _is_ip(text: str, mark: str, *, is_sloppy: bool = False) -> bool:
    """An address with this mark; a sloppy one may have zeros before its decimal numbers."""
    if is_sloppy and "." in text:
        colon = text.rfind(":") + 1
        text = text[:colon] + _LEADING_ZEROS.sub(r"\1", text[colon:])
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return mark in text and "%" not in text


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()) or len(bits) > _DIGITS:
        return False
    mark = ":" if ":" in address else "."
    return int(bits) <= (128 if mark == ":" else 32) and _is_ip(address, mark, is_sloppy=True)


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == 10 and text[4] == "-"


_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)(?:.\d+)?(?:z|[+-]\d\d:\d\d)", re.ASCII)


def _date_time(text: str) -> bool:
    date, separator, time = text.lower().partition("t")
    match = _TIME.fullmatch(time)
    if not separator or match is None or not _is_date(date):
        return False
    hours, minutes, seconds = match.groups()
    return bool(hours <= "23" and minutes <= "59" and seconds <= "59")


_GO_DURATION = re.compile(
    r"[+-]?(?:0|(?:(?:\d++\.?\d*+|\.\d++)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII
)
_SECOND = 1_000_000_000
_UNITS: tuple[tuple[int, tuple[str, ...], str], ...] = (
    (1, ("ns",), "nano"),
    (1000, ("us", "µs"), "micro"),
    (1_000_000, ("ms",), "milli"),
    (_SECOND, ("s",), "sec"),
    (60 * _SECOND, ("m",), "min"),
    (3600 * _SECOND, ("h", "hr"), "hour"),
    (86_400 * _SECOND, ("d",), "day"),
    (7 * 86_400 * _SECOND, ("w", "wk"), "week"),
)
"""Nanoseconds, the short names of a unit, and how its long names begin."""
_HUMAN = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)", re.ASCII)
_DIGITS = 4000
"""More are not made a number."""


def is_go_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None


def human_duration(text: str) -> int | None:
    """The nanoseconds of `1 day 2 hours`; None where it is nothing of the kind."""
    total, is_duration = 0, False
    for digits, name in _HUMAN.findall(text):
        if len(digits) > _DIGITS or int(digits) >= 2**63:
            return None
        unit = name.lower()
        for scale, short, long in _UNITS:
            if unit in short or unit.startswith(long):
                is_duration = True
                total += int(digits) * scale
    return total if is_duration else None


def _duration(text: str) -> bool:
    return is_go_duration(text) or human_duration(text) is not None


def _isbn10(text: str) -> bool:
    digits = _bare(text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = _bare(text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (3 if index % 2 else 1) for index, digit in enumerate(digits)) % 10 == 0


def _bare(text: str) -> str:
    return re.sub(r"[\s-]+", "", text)


_CARD = re.compile(
    r"4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)


def _credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * (1 + index % 2) for index, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    hexadecimal = "[0-9a-fA-F]"
    return _like(
        rf"{hexadecimal}{{8}}-?{hexadecimal}{{4}}-?{version}-?{variant}-?{hexadecimal}{{12}}"
    )


_ANY = "[0-9a-fA-F]{4}"
_VARIANT = "[89abAB][0-9a-fA-F]{3}"
_CHANNEL = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_PAIR = "[0-9a-fA-F]{2}"
_MACS = "|".join(
    [rf"{_PAIR}(?:{mark}{_PAIR}){{{count}}}" for mark in ":-" for count in (5, 7, 19)]
    + [rf"{_ANY}(?:\.{_ANY}){{{count}}}" for count in (2, 3, 9)]
    + [rf"(?:{_PAIR}){{{count}}}" for count in (6, 8, 20)]
)

_label = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII).fullmatch

_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _like("[0-9a-fA-F]{24}"),
    "uri": is_request_uri,
    "email": is_mail_address,
    "hostname": _hostname,
    "ipv4": lambda text: _is_ip(text, ".", is_sloppy=True),
    "ipv6": lambda text: _is_ip(text, ":"),
    "cidr": _cidr,
    "mac": _like(_MACS),
    "uuid": _uuid(_ANY, _ANY),
    "uuid3": _uuid("3[0-9a-fA-F]{3}", _ANY),
    "uuid4": _uuid("4[0-9a-fA-F]{3}", _VARIANT),
    "uuid5": _uuid("5[0-9a-fA-F]{3}", _VARIANT),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": _like(r"\d{3}[- ]\d{2}[- ]\d{4}"),
    "hexcolor": _like("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _like(rf"rgb\({_CHANNEL},{_CHANNEL},{_CHANNEL}\)"),
    "byte": _like("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "date": _is_date,
    "duration": _duration,
    "datetime": _date_time,
    "password": lambda _: True,
    "k8sshortname": lambda text: len(text) <= 63 and _label(text) is not None,
    "k8slongname": lambda text: len(text) <= 253 and all(map(_label, text.split("."))),
}
_NUMERIC = {"integer": ("int32", "int64"), "number": ("float", "double")}
_KNOWN = frozenset(_FORMATS)
