"""Giving requests things one to one, as many as can be, each request what it likes best if it may.

A name that is served stays served when others are added: it may get another thing in exchange for
its own, never none. So whoever comes first is served first, and the number that is served is the
largest possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NOTHING: Mapping[int, int] = {}


def assign(
    wishes: Mapping[int, Sequence[int]], held: Mapping[int, int] = _NOTHING
) -> dict[int, int]:
    """The thing of every request that can be served.

    `requests`: what would do for each, the best first. `held`: the result of an earlier call, whose
    requests are among these.
    """
    owner = {thing: desired for desired, thing in held.items()}
    for desired, things in wishes.items():
        if desired in held:
            continue
        free = next((thing for thing in things if thing not in owner), None)
        if free is not None:
            owner[free] = desired
        else:
            _exchange(desired, wishes, owner, set())
    return {desired: thing for thing, desired in owner.items()}


def _exchange(
    desired: int, wishes: Mapping[int, Sequence[int]], owner: dict[int, int], seen: set[int]
) -> bool:
    """Serve a name by giving those who have what would do for it something else."""
    for thing in wishes[desired]:
        if thing not in seen:
            seen.add(thing)
            if thing not in owner or _exchange(owner[thing], wishes, owner, seen):
                owner[thing] = desired
                return True
    return False
