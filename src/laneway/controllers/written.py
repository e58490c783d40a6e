"""Which writes of this process its own cache has not shown yet.

A watch shows the states of an object one after the other, so after two writes it shows the first
one for a moment. A controller that acts on that repeats the second write. So an object is left
alone until its cache has come as far as the last write to it.

Only for a while: a server that was restored from a backup counts its versions from before, and a
version need not be a number. Then the cache is believed again, so that nothing is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from laneway.api import ObjectMeta

PATIENCE_SECONDS = 5.0
"""How long the cache may lag behind. Watches deliver within milliseconds."""


class Written:
    """The last write to each object, until the cache has it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._writes: dict[str, tuple[int, float]] = {}

    def note(self, written: ObjectMeta) -> None:
        """Remember what the server answered to a write."""
        version = _number(written)
        if version:
            self._writes[written.name] = version, self._clock() + PATIENCE_SECONDS

    def forget(self, name: str) -> None:
        """The object has been deleted, by whichever client."""
        self._writes.pop(name, None)

    def lag(self, name: str, cached: ObjectMeta | None) -> float:
        """For how many seconds the cache should be given time; 0 when it is to be believed."""
        version, until = self._writes.get(name, (0, 0.0))
        if cached is None or _number(cached) < version:
            return max(0.0, until - self._clock())
        self.forget(name)
        return 0.0


def _number(metadata: ObjectMeta) -> int:
    version = metadata.resource_version
    return int(version) if version.isascii() and version.isdecimal() else 0
