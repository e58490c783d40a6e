"""What goes on while a change is made, for the interface that shows it."""

from __future__ import annotations

from laneway.views.answers import Answer


class Listener:
    """Ignores all of it. An interface overrides what it shows."""

    def progress(self, words: str) -> None:
        """How far it is; the same words may come several times."""

    def warning(self, words: str) -> None:
        """Something that does not stop the change, and that a user has to know."""

    def refused(self, answer: Answer) -> None:
        """The agent refused what was stored."""

    def interrupted(self, words: str) -> None:
        """The task was cancelled after a write: what goes on, and how to cancel it."""


SILENT = Listener()
