"""Giving wishes things one to one, as many as can be, each wish what it likes best if it may.

A wish that is served stays served when others are added: it may get another thing in exchange for
its own, never none. So whoever comes first is served first, and the number that is served is the
largest possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_NOTHING: Mapping[int, int] = {}


def pair(wishes: Mapping[int, Sequence[int]], held: Mapping[int, int] = _NOTHING) -> dict[int, int]:
    """The thing of every wish that can be served.

    `wishes`: what would do for each, the best first. `held`: the result of an earlier call, whose
    wishes are among these.
    """
    owner = {thing: wish for wish, thing in held.items()}
    for wish, things in wishes.items():
        if wish in held:
            continue
        free = next((thing for thing in things if thing not in owner), None)
        if free is not None:
            owner[free] = wish
        else:
            _exchange(wish, wishes, owner, set())
    return {wish: thing for thing, wish in owner.items()}


def _exchange(
    wish: int, wishes: Mapping[int, Sequence[int]], owner: dict[int, int], seen: set[int]
) -> bool:
    """Serve a wish by giving those who have what would do for it something else."""
    for thing in wishes[wish]:
        if thing not in seen:
            seen.add(thing)
            if thing not in owner or _exchange(owner[thing], wishes, owner, seen):
                owner[thing] = wish
                return True
    return False
