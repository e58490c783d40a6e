"""Whether the API server answers, and since when it does not.

The caches keep what they knew while it is away; a page that shows that says from when it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from laneway.kube.client import Client
from laneway.kube.errors import ApiError, KubeError

log = logging.getLogger(__name__)

LOOK_SECONDS = 3.0


def _now() -> datetime:
    return datetime.now(UTC)


class ServerState:
    """Run `run` in a task."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], datetime] = _now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client.unwaiting()
        self._clock = clock
        self._sleep = sleep
        self._listeners: list[Callable[[], None]] = []
        self._answered = clock()
        self.away_since: datetime | None = None
        """When it answered last; None while it answers."""

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call when the server goes or comes back."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            self._put(answers=await self._answers())
            await self._sleep(LOOK_SECONDS)

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._client.raw("/version")
        except ApiError as error:
            return error.code < 500
        except (KubeError, TimeoutError):
            return False
        return True

    def _put(self, *, answers: bool) -> None:
        before = self.away_since
        if answers:
            self._answered, self.away_since = self._clock(), None
        elif before is None:
            self.away_since = self._answered
        if (before is None) != (self.away_since is None):
            log.warning("the API server %s", "answers again" if answers else "does not answer")
            for listener in self._listeners:
                listener()
