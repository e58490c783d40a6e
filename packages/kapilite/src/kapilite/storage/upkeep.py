"""Keeps the store small while there are no writes: old history goes, free pages are returned.

Every few seconds it takes steps of some milliseconds, with a turn for everybody else in between,
until nothing is left to do. When the file cannot be written it tries again later.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kapilite.storage.store import Store

log = logging.getLogger(__name__)

EVERY_SECONDS = 10.0


class Upkeep:
    """One task, from start to stop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            more = False
            try:
                more = self._store.tidy()
            except sqlite3.Error as error:
                log.warning("old history is not cleared away: %s", error)
            await asyncio.sleep(0 if more else EVERY_SECONDS)
