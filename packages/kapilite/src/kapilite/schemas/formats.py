"""The string formats that Kubernetes checks; all others mean nothing and are let pass.

Each accepts exactly what Kubernetes accepts, which for some is not what a standard says: a
`byte` must not be empty, a `duration` may be `2 weeks`.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from typing import TYPE_CHECKING

from kapilite.schemas import regex

if TYPE_CHECKING:
    from collections.abc import Callable


def is_format(name: str, text: str) -> bool:
    """Whether a text has the format; true where the format is not known."""
    check = _FORMATS.get(name.replace("-", ""))
    return check is None or check(text)


def _like(pattern: str) -> Callable[[str], bool]:
    # Not compiled before it is needed: most formats never are.
    return lambda text: re.fullmatch(pattern, text, re.ASCII) is not None


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:", re.ASCII)
_HOST = re.compile(
    r"(?:[^@/?#\[\]]*@)?(?:\[[0-9A-Fa-f:.]+(?:%25[^\]]*)?\]|[^\s/?#\[\]<>\"\\^`{|}:]*)(?::\d*)?",
    re.ASCII,
)
_ESCAPES = re.compile(r"%(?![0-9A-Fa-f]{2})")


def is_uri(text: str) -> bool:
    """An absolute URI or path, as in an HTTP request."""
    if any(character < " " or character == "\x7f" for character in text):
        return False
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    rest = rest.split("?", 1)[0]
    if not rest.startswith("/"):
        return bool(scheme and rest)
    if _ESCAPES.search(rest):
        return False
    if not scheme or not rest.startswith("//"):
        return True
    return _HOST.fullmatch(rest[2:].split("/", 1)[0]) is not None


_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
_ADDRESS = rf"{_ATOM}(?:\.{_ATOM})*@{_ATOM}(?:\.{_ATOM})*"
_EMAIL = rf"\s*(?:{_ADDRESS}|(?:[^<>@,;:\\\"]*|\"[^\"]*\"\s*)<{_ADDRESS}>)\s*"
_C = r"[a-zA-Z0-9\p{S}\p{L}]"
_HOSTNAME = (
    rf"^({_C}((-?{_C}{{0,62}})?)"
    rf"|({_C}(([a-zA-Z0-9-\p{{S}}\p{{L}}]{{0,61}}{_C})?)(\.))+({_C})(-?{_C}){{1,62}})$"
)


def _hostname(text: str) -> bool:
    return (
        len(text.encode()) <= 255
        and all(len(label.encode()) <= 63 for label in text.split("."))
        and regex.compiled(_HOSTNAME).search(text) is not None
    )


def _is_ip(text: str, mark: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return mark in text and "%" not in text


def _cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    if not slash or not (bits.isascii() and bits.isdigit()) or len(bits) > 3:
        return False
    width = 128 if ":" in address else 32
    return int(bits) <= width and (_is_ip(address, ":") or _is_ip(address, "."))


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


_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_SECOND = 1_000_000_000
_UNITS = {
    **dict.fromkeys(("ns", "nano", "nanosecond"), 1),
    **dict.fromkeys(("us", "µs", "micro", "microsecond"), 1000),
    **dict.fromkeys(("ms", "milli", "millisecond"), 1_000_000),
    **dict.fromkeys(("s", "sec", "second"), _SECOND),
    **dict.fromkeys(("m", "min", "minute"), 60 * _SECOND),
    **dict.fromkeys(("h", "hr", "hour"), 3600 * _SECOND),
    **dict.fromkeys(("d", "day"), 86_400 * _SECOND),
    **dict.fromkeys(("w", "wk", "week"), 7 * 86_400 * _SECOND),
}
_HUMAN = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)


def is_go_duration(text: str) -> bool:
    return _GO_DURATION.fullmatch(text) is not None


def human_duration(text: str) -> int | None:
    """The nanoseconds of `1 day 2 hours`; None where it is nothing of the kind."""
    parts = _HUMAN.findall(text)
    if not parts:
        return None
    total = 0
    for count, unit in parts:
        scale = _UNITS.get(unit.lower()) or _UNITS.get(unit.lower().removesuffix("s"))
        if scale is None:
            return None
        total += int(count[:20]) * scale
    return total


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
    r"4\d{12}(?:\d{3}|\d{6})?|5[1-5]\d{14}|(?:222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}"
    r"|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11}"
    r"|6[27]\d{14}",
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
)

_FORMATS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _like("[0-9a-fA-F]{24}"),
    "uri": is_uri,
    "email": lambda text: re.fullmatch(_EMAIL, text) is not None,
    "hostname": _hostname,
    "ipv4": lambda text: _is_ip(text, "."),
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
}
