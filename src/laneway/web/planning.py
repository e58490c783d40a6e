"""What the planner keeps: the fleet of the cluster as users see it, and the files they uploaded.

An uploaded fleet is in the memory of this process alone. It belongs to one session, which has one
at a time, and it goes with the session. All of them together are bounded: where one more would be
too many, those go that were not used for longest.

Plans are made in a thread of their own, one at a time, so the pages of others do not wait.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from laneway.core.fleet.model import Fleet
from laneway.core.ledger.facts import Consumer
from laneway.web.derived import Once
from laneway.web.judging import Judging

FILE_BYTES = 8 << 20
"""The largest file."""
ALL_BYTES = 64 << 20
"""So large may all uploaded files be together."""
_KEPT = 4
"""Fleets of the cluster: users who may see the same VMs share one."""

Seen = frozenset[Consumer]


class Uploaded(NamedTuple):
    """A fleet from a file."""

    name: str
    size: int
    fleet: Fleet


@dataclass(eq=False, slots=True, weakref_slot=True)
class Own:
    """What a session has uploaded."""

    uploaded: Uploaded | None = None
    used: int = 0
    """Larger where it was used later."""


class Planning:
    """For all users of a process."""

    def __init__(self, all_bytes: int = ALL_BYTES) -> None:
        self.thread = Judging("planning")
        self._all_bytes = all_bytes
        self._owners: weakref.WeakSet[Own] = weakref.WeakSet()
        self._clock = count(1)
        self._fleets = Once[OrderedDict[Seen, Fleet]]()

    def keep(self, own: Own, uploaded: Uploaded) -> None:
        """Keep a fleet for a session, instead of what it had."""
        own.uploaded = uploaded
        self.use(own)
        self._owners.add(own)
        by_use = sorted(self._owners, key=lambda one: -one.used)
        total = 0
        for one in by_use:
            total += one.uploaded.size if one.uploaded else 0
            if total > self._all_bytes and one is not own:
                one.uploaded = None

    def use(self, own: Own) -> Uploaded | None:
        """What a session has uploaded, which is in use from now on."""
        own.used = next(self._clock)
        return own.uploaded

    async def fleet(self, make: Callable[[], Fleet], seen: Seen, *of: object) -> Fleet:
        """The fleet of the cluster, made once from these objects for all who see the same."""
        made = self._fleets.get(OrderedDict, *of)
        if seen not in made:
            made[seen] = await self.thread.run(make)
            if len(made) > _KEPT:
                made.popitem(last=False)
        return made[seen]
