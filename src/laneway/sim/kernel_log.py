"""The kernel log of a simulated host: messages from any thread to its readers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from laneway.core.kernel.log import CAUGHT_UP


class KernelLog:
    """All messages since the host was made; every reader gets all of them."""

    def __init__(self) -> None:
        self._messages: list[str] = []
        self._readers: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def say(self, text: str) -> None:
        """Add messages, one a line."""
        self._messages += [line for line in text.splitlines() if line.strip()]
        for loop, more in list(self._readers):
            with contextlib.suppress(RuntimeError):  # the loop has ended without reading to the end
                loop.call_soon_threadsafe(more.set)

    async def read(self) -> AsyncGenerator[str, None]:
        """From the first message on, without end."""
        more = asyncio.Event()
        reader = asyncio.get_running_loop(), more
        self._readers.append(reader)
        read = 0
        try:
            while True:
                more.clear()
                while read < len(self._messages):
                    read += 1
                    yield self._messages[read - 1]
                yield CAUGHT_UP
                await more.wait()
        finally:
            self._readers.remove(reader)
