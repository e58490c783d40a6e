"""What several policies ask of one host together.

Policies add up. Two that ask for what cannot both be true contradict each other; then nothing is
asked of the host that was not asked before, and both are told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from laneway.core.preparation.arguments import name_of, value_of
from laneway.core.preparation.wanted import Wanted, invalid

T = TypeVar("T")


class Asked(NamedTuple):
    """What one policy asks of its hosts."""

    policy: str
    wanted: Wanted


class Contradiction(NamedTuple):
    """Policies of one host that cannot all be met."""

    policies: tuple[str, ...]
    why: str
    """In words, with what they ask."""


def merge(asked: Sequence[Asked]) -> Wanted | Contradiction:
    """All that the policies ask, in the order of their names, so that every look is the same."""
    ordered = sorted(asked, key=lambda one: one.policy)
    if found := _contradiction(ordered):
        return found
    wants = [one.wanted for one in ordered]
    merged = Wanted(
        iommu=any(one.iommu for one in wants),
        iommu_passthrough=any(one.iommu_passthrough for one in wants),
        vfio_at_boot=any(one.vfio_at_boot for one in wants),
        blocked_drivers=_once(driver for one in wants for driver in one.blocked_drivers),
        huge_pages=_once(pages for one in wants for pages in one.huge_pages),
        kernel_arguments=_once(word for one in wants for word in one.kernel_arguments),
    )
    if problems := invalid(merged):  # each of them alone is valid
        return Contradiction(tuple(one.policy for one in ordered), "; ".join(problems))
    return merged


def _once(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


def _contradiction(asked: Sequence[Asked]) -> Contradiction | None:
    known: dict[str, tuple[str, set[str]]] = {}
    for policy, wanted in asked:
        for name, values in _values(wanted).items():
            other, before = known.setdefault(name, (policy, values))
            if values != before:
                first, second = ("/".join(sorted(one)) for one in (before, values))
                why = f"{name} is {first} in {other} and {second} in {policy}"
                return Contradiction((other, policy), why)
    return None


def _values(wanted: Wanted) -> dict[str, set[str]]:
    """What has one value on a host, or one set of values in one policy, as `console=` may."""
    found: dict[str, set[str]] = {}
    for pages in wanted.huge_pages:
        found.setdefault(f"the number of {pages.size} huge pages", set()).add(str(pages.count))
    for word in wanted.kernel_arguments:
        value = value_of(word) if "=" in word else "set"
        found.setdefault(f"kernel argument {name_of(word)}", set()).add(value)
    return found
