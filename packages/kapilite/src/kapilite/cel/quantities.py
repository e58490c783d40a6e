"""Kubernetes' functions on quantities: `1500m`, `2Gi`.

An amount is kept as it was written, because Kubernetes' answers depend on that: `1000m` is as much
as `1`, but no integer.
"""

from __future__ import annotations

import re

import msgspec

from kapilite.cel.functions import declare
from kapilite.cel.types import KINDS
from kapilite.cel.values import INT_MAX, INT_MIN, CelError
from kubebasics import quantity

_PARTS = re.compile(r"([+-]?)0*(\d*)(?:\.(\d*))?(.*)", re.ASCII)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SMALL = 18
"""So many digits are surely within 64 bits."""
_NANO = -9


class Quantity(msgspec.Struct, frozen=True, eq=False):
    digits: int
    exponent: int
    """Of ten, by which the digits are multiplied."""
    is_small: bool
    """Whether it is kept in 64 bits; only such are integers."""
    is_computed: bool = False
    """The sum or difference of others, to which Kubernetes finds nothing equal: an error."""

    @property
    def nanos(self) -> int:
        return self.digits * 10 ** (self.exponent - _NANO) if self.digits else 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Quantity):
            return False
        if other.is_computed:
            raise CelError("no such overload")
        return self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)


KINDS[Quantity] = "kubernetes.Quantity"


@declare("quantity(string) quantity")
def _quantity(text: str) -> Quantity:
    try:
        quantity.value(text)
    except ValueError as error:
        raise CelError(str(error)) from None
    match = _PARTS.fullmatch(text)
    assert match is not None  # noqa: S101 - it is a quantity
    sign, whole, fraction, suffix = match[1], match[2] or "0", match[3] or "", match[4]
    digits = int(whole + fraction) * (-1 if sign == "-" else 1)
    length = len(whole) + len(fraction)
    if suffix in _BINARY:
        return _binary(digits, len(fraction), length, _BINARY[suffix])
    power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    exponent = power - len(fraction)
    if length <= _SMALL and exponent >= _NANO:
        return Quantity(digits, exponent, is_small=True)
    return _rounded(digits, exponent)


def _binary(digits: int, places: int, length: int, power: int) -> Quantity:
    digits <<= power
    room = 15 - length - int(power * 0.3) - 1
    if not places and room >= 0 and INT_MIN <= digits <= INT_MAX:
        return Quantity(digits, 0, is_small=True)
    largest = INT_MAX * 10**places
    return _rounded(max(-largest, min(digits, largest)), -places)


def _rounded(digits: int, exponent: int) -> Quantity:
    """Away from zero, where there is more than billionths."""
    if exponent >= _NANO or not digits:
        return Quantity(digits, exponent if digits else 0, is_small=False)
    scale = 10 ** (_NANO - exponent)
    whole = -(-abs(digits) // scale)
    return Quantity(whole if digits > 0 else -whole, _NANO, is_small=False)


@declare("isQuantity(string) bool")
def _is_quantity(text: str) -> bool:
    try:
        _quantity(text)
    except CelError:
        return False
    return True


@declare("quantity.isInteger() bool")
def _is_integer(one: Quantity) -> bool:
    return one.is_small and one.exponent >= 0 and abs(one.nanos) <= INT_MAX * quantity.NANO


@declare("quantity.asInteger() int")
def _as_integer(one: Quantity) -> int:
    if not _is_integer(one):
        raise CelError("cannot convert value to integer")
    return one.nanos // quantity.NANO


@declare("quantity.asApproximateFloat() double")
def _as_float(one: Quantity) -> float:
    return float(one.digits) * float(f"1e{one.exponent}") if one.exponent else float(one.digits)


@declare("sign(quantity) int")
def _sign(one: Quantity) -> int:
    return (one.digits > 0) - (one.digits < 0)


@declare("quantity.compareTo(quantity) int")
def _compare(one: Quantity, two: Quantity) -> int:
    return (one.nanos > two.nanos) - (one.nanos < two.nanos)


@declare("quantity.isGreaterThan(quantity) bool")
def _is_greater(one: Quantity, two: Quantity) -> bool:
    return one.nanos > two.nanos


@declare("quantity.isLessThan(quantity) bool")
def _is_less(one: Quantity, two: Quantity) -> bool:
    return one.nanos < two.nanos


@declare("quantity.add(quantity) quantity")
def _add(one: Quantity, two: Quantity) -> Quantity:
    is_small = one.is_small and two.is_small
    if is_small and not (one.digits and two.digits):
        kept = one if not two.digits else two
        return Quantity(kept.digits, kept.exponent, is_small=True, is_computed=True)
    exponent = min(one.exponent, two.exponent)
    terms = [part.digits * 10 ** (part.exponent - exponent) for part in (one, two)]
    fits = all(INT_MIN <= number <= INT_MAX for number in (*terms, sum(terms)))
    return Quantity(sum(terms), exponent, is_small=is_small and fits, is_computed=True)


@declare("quantity.add(int) quantity")
def _add_int(one: Quantity, two: int) -> Quantity:
    return _add(one, Quantity(two, 0, is_small=True))


@declare("quantity.sub(quantity) quantity")
def _sub(one: Quantity, two: Quantity) -> Quantity:
    return _add(one, Quantity(-two.digits, two.exponent, two.is_small))


@declare("quantity.sub(int) quantity")
def _sub_int(one: Quantity, two: int) -> Quantity:
    return _add_int(one, -two)
