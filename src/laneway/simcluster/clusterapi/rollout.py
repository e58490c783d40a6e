"""How machines are exchanged: one decision of a MachineDeployment about its MachineSets.

As with Kubernetes' Deployments: at most `maxSurge` machines more than desired exist by the sets'
numbers, at most `maxUnavailable` fewer are available. Machines that are being deleted are counted
by neither, though they hold their hardware until they are gone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple


class SetSize(NamedTuple):
    """A MachineSet, old or new."""

    name: str
    replicas: int
    available: int


def limits(desired: int, surge: int | str | None, unavailable: int | str | None) -> tuple[int, int]:
    """`maxSurge` and `maxUnavailable` as numbers; 1 and 0 where they are not said.

    Both 0 would never exchange anything: then one may be missing.
    """
    more = _number(desired, 1 if surge is None else surge, up=True)
    fewer = _number(desired, 0 if unavailable is None else unavailable, up=False)
    return more, fewer or (0 if more else 1)


def _number(desired: int, value: int | str, *, up: bool) -> int:
    """A number, or a share of the request; what is neither counts as nothing."""
    if isinstance(value, int):
        return max(0, value)
    share = value.removesuffix("%")
    if share == value or not share.isdecimal():
        return 0
    part = desired * int(share) / 100
    return math.ceil(part) if up else math.floor(part)


def resized(
    desired: int, new: SetSize, old: Sequence[SetSize], *, surge: int, unavailable: int
) -> dict[str, int]:
    """How many machines sets are to have now, of those that change."""
    total = new.replicas + sum(one.replicas for one in old)
    if new.replicas > desired:
        return {new.name: desired}
    if not old or all(one.replicas == 0 for one in old):
        return {new.name: desired} if new.replicas != desired else {}
    if (room := min(desired + surge - total, desired - new.replicas)) > 0:
        return {new.name: new.replicas + room}
    return _shrunk(desired - unavailable, new, old, total)


def _shrunk(needed: int, new: SetSize, old: Sequence[SetSize], total: int) -> dict[str, int]:
    """Old sets made smaller: first by machines that are of no use, then by what can be spared."""
    spare = total - needed - (new.replicas - new.available)
    sizes = {one.name: one.replicas for one in old}
    for one in old:
        if (useless := min(one.replicas - one.available, spare)) > 0:
            sizes[one.name] -= useless
            spare -= useless
    left = new.available + sum(min(one.available, sizes[one.name]) for one in old) - needed
    for one in old:
        if (cut := min(sizes[one.name], left, spare)) > 0:
            sizes[one.name] -= cut
            left -= cut
            spare -= cut
    return {one.name: sizes[one.name] for one in old if sizes[one.name] != one.replicas}
