"""Where machine pools are judged, and plans made: outside the event loop, one at a time.

With many guest clusters and nodes that takes seconds, in which everyone else's pages go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from laneway.core.ledger.ledger import Ledger

T = TypeVar("T")


class Judging:
    """One thread, and an event for each new ledger."""

    def __init__(self, name: str = "judging") -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self.made = asyncio.Event()
        """Set once another ledger is made."""

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` gives, which changes nothing. Raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def ledger_made(self, _ledger: Ledger) -> None:
        """Wake those who wait for a ledger."""
        made, self.made = self.made, asyncio.Event()
        made.set()
