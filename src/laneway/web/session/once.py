"""One-time codes, by which a process that holds a token lets its user in.

`laneway up` prints an address with a code, never the token. A code works once, and not for long.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import NamedTuple

SECONDS = 3600.0
_MOST = 16


class _Held(NamedTuple):
    token: str
    until: float

    def __repr__(self) -> str:
        return "a token that is held"


class OnceCodes:
    """The codes of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[str, _Held] = {}

    def issue(self, token: str, seconds: float = SECONDS) -> str:
        """A new code for a token; of too many, the oldest is void."""
        if len(self._held) >= _MOST:
            del self._held[next(iter(self._held))]
        code = secrets.token_urlsafe(24)
        self._held[code] = _Held(token, self._clock() + seconds)
        return code

    def take(self, code: str) -> str | None:
        """The token of a code, which is used up by this; None for any other text."""
        held = self._held.pop(code, None)
        return held.token if held and self._clock() < held.until else None
