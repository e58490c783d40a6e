"""Text that only this process can read and make, for cookies.

Keys are made at the start, live in memory, and are replaced every hour. An old key still opens what
it sealed, for as long as a session can live. What is sealed for one purpose opens for no other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

ROTATE_SECONDS = 3600.0
KEPT_SECONDS = 24 * 3600.0
"""How long a key opens what it has sealed: twice the longest session."""
_LONGEST = 4096
"""Characters; a browser keeps no longer cookie."""


class Keyring:
    """The keys of one process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._keys: deque[tuple[float, Fernet]] = deque()
        """The newest first, each with the time at which it was made."""

    def seal(self, purpose: str, content: str) -> str:
        """Encrypted and signed text."""
        plain = f"{purpose}\0{content}".encode()
        return self._current().encrypt_at_time(plain, int(self._clock())).decode()

    def open(self, purpose: str, text: str, seconds: float = KEPT_SECONDS) -> str | None:
        """What was sealed, if this process did it for the purpose and no longer ago than that."""
        if len(text) > _LONGEST or not text.isascii():
            return None
        try:
            plain = self._current().decrypt_at_time(
                text.encode(), ttl=int(seconds), current_time=int(self._clock())
            )
        except InvalidToken:
            return None
        found, _, content = plain.decode().partition("\0")
        return content if found == purpose else None

    def _current(self) -> MultiFernet:
        now = self._clock()
        if not self._keys or now - self._keys[0][0] >= ROTATE_SECONDS:
            self._keys.appendleft((now, Fernet(Fernet.generate_key())))
        while now - self._keys[-1][0] > KEPT_SECONDS + ROTATE_SECONDS:
            self._keys.pop()
        return MultiFernet([key for _, key in self._keys])
