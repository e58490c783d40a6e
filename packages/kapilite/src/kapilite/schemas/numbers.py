"""Numbers held against the limits of a schema, as Kubernetes does it.

An integer is held against the whole part of a limit, and a limit that is no number of the type that
the schema asks for is wrong by itself, whatever the value is.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from kapilite import problems as problem
from kapilite.gotext.numbers import number_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.problems import Problem

_SAFE = 2**53 - 1
_LOWEST = -(2**63)


def whole(value: float) -> bool:
    """Whether JSON would call the number an integer: within a billionth of one that is exact."""
    if not math.isfinite(value) or abs(value) > _SAFE:
        return False
    nearest = _rounded(value)
    return value == nearest or (nearest != 0 and abs(value - nearest) < 1e-9 * abs(nearest))


def _rounded(value: float) -> float:
    """The nearest integer; of two the one that is farther from zero."""
    low = math.floor(value)
    rest = value - low
    if rest == 0.5:
        return low + 1.0 if value > 0 else float(low)
    return low + (1.0 if rest > 0.5 else 0.0)


def truncated(value: float) -> int:
    """The number as an integer of 64 bits; what is none becomes the lowest, as processors do it."""
    if not math.isfinite(value) or not _LOWEST <= value < -_LOWEST:
        return _LOWEST
    return int(value)


def number_problems(
    schema: dict[str, Any], form: str, value: float, path: str
) -> Iterator[Problem]:
    """What is wrong with a number, whatever type it is to have."""
    kind = "" if schema.get("x-kubernetes-int-or-string") else schema.get("type", "")
    number: float = value
    if isinstance(value, int) and not _LOWEST <= value < -_LOWEST:
        number = float(value)  # as it was decoded
    if _is_beyond(number, kind, form):
        yield _range("Checked", kind, form, path)
    step = schema.get("multipleOf")
    if step is not None:
        yield from _multiple(number, step, kind, form, path)
    for limit, is_most in (("maximum", True), ("minimum", False)):
        if schema.get(limit) is not None:
            is_exclusive = bool(schema.get(f"exclusive{limit.capitalize()}"))
            yield from _bound(
                number, schema[limit], kind, form, path, is_most=is_most, is_exclusive=is_exclusive
            )


def _is_beyond(number: float, kind: str, form: str) -> bool:
    """Whether it is no number of the type."""
    if kind == "integer":
        if isinstance(number, float) and not number.is_integer():
            return True
        bits = 32 if form == "int32" else 64
        return not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1)
    if kind == "number" and form == "float":
        try:
            struct.pack("f", number)
        except OverflowError:
            return True
    return False


def _range(what: str, kind: str, form: str, path: str) -> Problem:
    """Kubernetes names the place of these in the text only."""
    which = f"with format {form}" if form else "(default format)"
    text = f"{what} value must be of type {kind} {which} in {path}"
    return problem.invalid("<nil>", "", text)


def _multiple(number: float, step: float, kind: str, form: str, path: str) -> Iterator[Problem]:
    is_beyond = _is_beyond(step, kind, form)
    if is_beyond:
        yield _range("MultipleOf", kind, form, path)
    if isinstance(number, int) and not is_beyond:
        factor: float = truncated(step)
        fits = factor > 0 and number % factor == 0
    else:
        factor = step
        fits = step > 0 and whole(1 / step * number if step < 1 else number / step)
    if factor <= 0:
        text = f"factor MultipleOf declared for {path} must be positive: {number_text(factor)}"
        yield problem.invalid(path, step, text)
    elif not fits:
        text = f"{path} in body should be a multiple of {number_text(factor)}"
        yield problem.invalid(path, number, text)


def _bound(
    number: float,
    limit: float,
    kind: str,
    form: str,
    path: str,
    *,
    is_most: bool,
    is_exclusive: bool,
) -> Iterator[Problem]:
    is_beyond = _is_beyond(limit, kind, form)
    if is_beyond:
        yield _range(f"{'Maximum' if is_most else 'Minimum'} boundary", kind, form, path)
    edge: float
    if isinstance(number, int) and not is_beyond:
        edge = truncated(limit)
    else:
        number, edge = float(number), float(limit)
    is_over = number > edge if is_most else number < edge
    if is_over or (is_exclusive and number == edge):
        word = "less than" if is_most else "greater than"
        word += "" if is_exclusive else " or equal to"
        yield problem.invalid(path, number, f"{path} in body should be {word} {number_text(edge)}")
