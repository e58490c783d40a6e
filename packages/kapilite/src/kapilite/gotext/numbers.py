"""Floating-point numbers as Go prints them: they are part of error messages and of rules' texts."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any


def number_text(value: float) -> str:
    """The shortest text for a number; one that is no integer has an exponent from a million on."""
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
    exact = Decimal(repr(float(value))).normalize()
    point = exact.adjusted()
    if exact and not -4 <= point < 6:
        return _scientific(exact, point)
    return f"{exact:f}"


def json_number(value: float) -> str:
    """A number as Go writes it in JSON."""
    exact = Decimal(repr(value)).normalize()
    if exact and not -6 <= exact.adjusted() < 21:
        text = _scientific(exact, exact.adjusted())
        return re.sub("e-0([1-9])$", r"e-\1", text)
    return f"{exact:f}"


def _scientific(exact: Decimal, point: int) -> str:
    sign = "-" if exact < 0 else ""
    digits = "".join(map(str, exact.as_tuple().digits))
    mantissa = digits[0] + (f".{digits[1:]}" if digits[1:] else "")
    return f"{sign}{mantissa}e{'-' if point < 0 else '+'}{abs(point):02d}"


def reread(value: Any) -> Any:
    """A JSON value as Go reads again what it wrote of it: a whole number is an integer then."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else value
    if isinstance(value, dict):
        return {key: reread(member) for key, member in value.items()}
    if isinstance(value, list):
        return [reread(item) for item in value]
    return value
