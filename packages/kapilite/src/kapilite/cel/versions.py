"""Kubernetes' functions on versions: `1.2.3-rc.1+build`, as semver.org has it."""

from __future__ import annotations

import re

import msgspec

from kapilite.cel.functions import declare
from kapilite.cel.types import KINDS
from kapilite.cel.values import UINT_MAX, CelError

_DIGITS = len(str(UINT_MAX))
_NUMBER = "(0|[1-9][0-9]*)"
_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_PART}(?:\.{_PART})*))?(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)


class Semver(msgspec.Struct, frozen=True):
    numbers: tuple[int, int, int]
    pre: tuple[str, ...]
    build: str

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        text += "-" + ".".join(self.pre) if self.pre else ""
        return f"{text}+{self.build}" if self.build else text

    def __eq__(self, other: object) -> bool:
        """Equal without regard to the build."""
        return isinstance(other, Semver) and (self.numbers, self.pre) == (other.numbers, other.pre)

    def __hash__(self) -> int:
        return hash((self.numbers, self.pre))


KINDS[Semver] = "kubernetes.Semver"


@declare("semver(string) semver", "semver(string, bool) semver")
def _semver(text: str, normalize: bool = False) -> Semver:
    match = _VERSION.fullmatch(_normal(text) if normalize else text)
    major, minor, patch, pre, build = match.groups() if match else ("",) * 5
    parts = tuple(pre.split(".")) if pre else ()
    numbers = (major, minor, patch, *filter(str.isdigit, parts))
    if match is None or any(len(n) > _DIGITS or int(n) > UINT_MAX for n in numbers):
        raise CelError(f'"{text}" is not a version')
    return Semver((int(major), int(minor), int(patch)), parts, build or "")


def _normal(text: str) -> str:
    """Without `v`, without zeros in front, with the numbers that are missing."""
    parts = text.removeprefix("v").split(".", 2)
    if len(parts) < 3 and re.search("[+-]", parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    parts = [_without_zeros(part) if len(part) > 1 else part for part in parts]
    return ".".join([*parts, "0", "0"][:3])


def _without_zeros(part: str) -> str:
    rest = part.lstrip("0")
    return rest if rest[:1] in tuple("0123456789") else f"0{rest}"


@declare("isSemver(string) bool", "isSemver(string, bool) bool")
def _is_semver(text: str, normalize: bool = False) -> bool:
    try:
        _semver(text, normalize)
    except CelError:
        return False
    return True


@declare("semver.major() int")
def _major(version: Semver) -> int:
    return _signed(version.numbers[0])


@declare("semver.minor() int")
def _minor(version: Semver) -> int:
    return _signed(version.numbers[1])


@declare("semver.patch() int")
def _patch(version: Semver) -> int:
    return _signed(version.numbers[2])


def _signed(number: int) -> int:
    """What becomes in Go of a number that is too large."""
    return number - 2**64 if number >= 2**63 else number


@declare("semver.compareTo(semver) int")
def _compare(one: Semver, two: Semver) -> int:
    left, right = _order(one), _order(two)
    return (left > right) - (left < right)


@declare("semver.isGreaterThan(semver) bool")
def _is_greater(one: Semver, two: Semver) -> bool:
    return _order(one) > _order(two)


@declare("semver.isLessThan(semver) bool")
def _is_less(one: Semver, two: Semver) -> bool:
    return _order(one) < _order(two)


def _order(version: Semver) -> tuple[object, ...]:
    """What precedes what: a version follows those that were before its release."""
    parts = [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in version.pre]
    return version.numbers, not parts, parts
