"""Fair queuing of what is computed: in turn among peers and, of a peer, among its users.

What is computed on the event loop delays all requests, however short each piece of it is. Pieces
that a client can cause are computed in a turn each. A client with many of them waits behind its
own, and delays any other by one piece.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator

_Queue = deque[asyncio.Future[None]]


class FairQueue:
    """FairQueue that are given round."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: dict[str, dict[str, _Queue]] = {}
        """By peer and user; the first of both is next."""

    @contextlib.asynccontextmanager
    async def turn(self, peer: str, user: str = "") -> AsyncIterator[None]:
        """Wait for a turn, which lasts as long as the block. The block must not wait."""
        if self._taken:
            await self._queue(peer, user)
        self._taken = True
        try:
            yield
        finally:
            self._pass_on()

    async def _queue(self, peer: str, user: str) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(peer, {}).setdefault(user, deque()).append(future)
        try:
            await future
        except asyncio.CancelledError:
            # Whose turn it had become passes it on; who still waits is passed over.
            if future.done() and not future.cancelled():
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            future = self._next()
            if not future.done():
                future.set_result(None)
                return
        self._taken = False

    def _next(self) -> asyncio.Future[None]:
        """The first of the user whose turn it is; both go behind the others."""
        peer, users = next(iter(self._waiting.items()))
        user, queue = next(iter(users.items()))
        future = queue.popleft()
        del self._waiting[peer], users[user]
        if queue:
            users[user] = queue
        if users:
            self._waiting[peer] = users
        return future
