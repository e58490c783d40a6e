"""Quantities such as `500m` or `1Gi`, in the one form in which Kubernetes writes each.

A cluster stores `0.5` as `500m` and `1024Mi` as `1Gi`; programs compare the texts. Amounts are
rounded up to the nano, the smallest unit there is, and capped at 2^63-1 as Kubernetes does.
"""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, localcontext
from functools import lru_cache

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
WRONG = f"quantities must match the regular expression '{PATTERN}'"

_TEXT = re.compile(
    r"([+-]?)(\d*\.?\d*)(?:(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]?)|[eE]([+-]?\d{1,3}))", re.ASCII
)
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = {power: suffix for suffix, power in _DECIMAL.items()}
LARGEST = 2**63 - 1
NANO = 10**9
_LONGEST = 400


@lru_cache(maxsize=1024)
def canonical(text: str) -> str:
    """The canonical form of a quantity; ValueError if it is none."""
    suffix, exponent = _parts(text)[2:]
    nanos = value(text)
    minus, nanos = "-" if nanos < 0 else "", abs(nanos)
    if exponent is not None:
        return minus + _exponential(nanos)
    if suffix in _BINARY and nanos % NANO == 0 and nanos >= 1024 * NANO:
        return minus + _binary(nanos // NANO)
    return minus + _decimal(nanos)


@lru_cache(maxsize=1024)
def value(text: str) -> int:
    """The amount in billionths; ValueError if it is none."""
    sign, digits, suffix, exponent = _parts(text)
    with localcontext(Context(prec=1200, rounding=ROUND_UP)):
        amount = Decimal(digits)
        if suffix in _BINARY:
            amount *= 2 ** _BINARY[suffix]
        else:
            amount = amount.scaleb(_DECIMAL[suffix] if exponent is None else int(exponent))
        nanos = min(int((amount * NANO).to_integral_value()), LARGEST * NANO)
    return -nanos if sign == "-" else nanos


def _parts(text: str) -> tuple[str, str, str, str | None]:
    match = _TEXT.fullmatch(text) if 0 < len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(WRONG)
    sign, digits, suffix, exponent = match.groups()
    # Kubernetes reads an amount without digits, such as `m`, as none.
    return sign, digits.rstrip(".") or "0", suffix or "", exponent


def _binary(whole: int) -> str:
    for suffix, power in reversed(_BINARY.items()):
        if whole % 2**power == 0:
            return f"{whole >> power}{suffix}"
    return str(whole)


def _decimal(nanos: int) -> str:
    digits, power = _thousands(nanos)
    return f"{digits}{_SUFFIXES[power]}"


def _exponential(nanos: int) -> str:
    digits, power = _thousands(nanos)
    return f"{digits}e{power}" if power else str(digits)


def _thousands(nanos: int) -> tuple[int, int]:
    """The amount as a whole number of the largest unit that divides it."""
    if nanos == 0:
        return 0, 0
    power = -9
    while power < 18 and nanos % 1000 == 0:
        nanos //= 1000
        power += 3
    return nanos, power
