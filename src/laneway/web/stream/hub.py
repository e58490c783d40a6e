"""All open pages, and whom a change is told to."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator

from laneway.web.caches import Change
from laneway.web.stream.tab import Tab

MOST = 2000
MOST_PER_USER = 200


class TooManyError(Exception):
    """There are as many open pages as there may be."""


class Hub:
    """The open pages of all users."""

    def __init__(self) -> None:
        self._tabs: dict[Tab, str] = {}
        self._users: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()
        self._redrawn = 0

    def __len__(self) -> int:
        return len(self._tabs)

    @contextlib.contextmanager
    def open(self, tab: Tab, user: str) -> Iterator[None]:
        """Tell a tab of changes while the block runs. Raises TooManyError."""
        if len(self._tabs) >= MOST or self._users[user] >= MOST_PER_USER:
            raise TooManyError
        self._tabs[tab] = user
        self._users[user] += 1
        try:
            yield
        finally:
            del self._tabs[tab]
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]

    def version(self, kinds: Iterable[str]) -> str:
        """Another one after every change of these kinds: a page that has it shows what is now."""
        return f"{self._redrawn}.{sum(self._changes[kind] for kind in kinds)}"

    def redraw(self) -> None:
        """Have every page drawn again."""
        self._redrawn += 1
        for tab in self._tabs:
            tab.redraw()

    def mark(self, change: Change) -> None:
        """Have every page drawn again that shows a change."""
        self._changes[change.kind] += 1
        for tab in self._tabs:
            tab.mark(change)
