"""Time that passes faster than it does, for everything in one event loop.

Minutes that a role waits pass in moments: every timer of the loop is due as much earlier. Step by
step, so that what happens meanwhile happens in its order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

TURNS = 4
"""How often in a row nothing is under way before time goes on."""


class FastTime:
    """The time of the running event loop, which a test moves on."""

    def __init__(self, busy: Callable[[], bool]) -> None:
        """`busy`: whether something is under way that takes real time, and must not look slow."""
        self._busy = busy
        loop = asyncio.get_running_loop()
        self._ahead = 0.0
        real = loop.time
        loop.time = lambda: real() + self._ahead  # type: ignore[method-assign]

    async def passes(self, seconds: float, step: float = 2.0) -> None:
        """Let so much time pass."""
        while seconds > 0:
            self._ahead += min(step, seconds)
            seconds -= step
            await self._quiet()

    async def _quiet(self) -> None:
        """Wait until what is due has been done, and what follows from it."""
        idle = 0
        while idle < TURNS:
            await asyncio.sleep(0.001)
            idle = 0 if self._busy() else idle + 1
