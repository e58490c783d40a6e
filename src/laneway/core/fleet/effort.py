"""How much work a question may be: what is looked at is counted, and too much ends it.

Questions come with files that anyone may have written, and one that takes hours would keep others
waiting. Counting gives the same answer on every machine, as a time limit would not.
"""

from __future__ import annotations

import math


class TooLongError(Exception):
    """As much was looked at as may be, and there is no answer."""


class Effort:
    """What is left of it; infinite for a question that can be interrupted by its user."""

    def __init__(self, most: float = math.inf) -> None:
        self._left = most

    def look(self) -> None:
        """Look at one more. Raises TooLongError."""
        self._left -= 1
        if self._left < 0:
            raise TooLongError
