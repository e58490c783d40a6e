"""What one open page has to be sent.

Changes are gathered: while a page is being drawn or was drawn a moment ago, any number of them
leads to one more drawing, which shows them all. Of a drawing only those blocks are sent that look
other than what the browser has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from laneway.web.caches import Change

PAUSE_SECONDS = 0.2
"""Between two drawings: at most five a second."""
ALIVE_SECONDS = 15.0
"""A stream without changes says this often that it is there. Sending fails once its client is gone,
and a browser that hears nothing says that its page may be out of date."""

Concerns = Callable[[Change], bool]


class Tab:
    """One open page."""

    def __init__(
        self,
        kinds: frozenset[str],
        draw: Callable[[], Mapping[str, str]],
        concerns: Callable[[], Concerns | None],
        *,
        is_current: bool,
        pause: float = PAUSE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """A page that is drawn from `kinds`, caches by name.

        `concerns`: what the last drawing says about which changes it shows. `is_current`: the
        browser shows what is now. `pause`: so long it rests after a drawing.
        """
        self._kinds = kinds
        self._draw = draw
        self._concerns = concerns
        self._pause = pause
        self._sleep = sleep
        self._dirty = asyncio.Event()
        if not is_current:
            self._dirty.set()
        self._sent: dict[str, str] = {}

    def mark(self, change: Change) -> None:
        """Something has changed; the page is drawn again if it shows that."""
        if self._dirty.is_set() or change.kind not in self._kinds:
            return
        concerns = self._concerns()
        if concerns is None or concerns(change):
            self._dirty.set()

    def redraw(self) -> None:
        """Draw again, whatever has changed."""
        self._dirty.set()

    async def run(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send blocks as they change, until cancelled or `send` raises."""
        while True:
            try:
                async with asyncio.timeout(ALIVE_SECONDS):
                    await self._dirty.wait()
            except TimeoutError:
                await send(event("alive", ""))
                continue
            self._dirty.clear()
            if blocks := self._changed():
                await send(event("blocks", "\n".join(blocks)))
            await self._sleep(self._pause)

    def _changed(self) -> list[str]:
        drawn = self._draw()
        changed = [html for name, html in drawn.items() if self._sent.get(name) != html]
        self._sent = dict(drawn)
        return changed


def event(name: str, data: str) -> str:
    """An event of a stream."""
    lines = data.splitlines() or [""]
    return "".join([f"event: {name}\n", *(f"data: {line}\n" for line in lines), "\n"])
