"""Whether a write comes from a page of ours, in the browser of the user.

Two independent proofs: what the browser says about where the request comes from, and a token that
only our pages in this browser have for this user.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

FIELD = "csrf"
HEADER = "X-CSRF-Token"
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class CsrfTokens:
    """The tokens of one process."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def token(self, browser: str, user: str = "") -> str:
        """What the forms of a user in a browser carry; no user: the sign-in form."""
        text = f"{browser}\0{user}".encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()

    def is_right(self, given: str, browser: str, user: str = "") -> bool:
        """Whether a token is that of this browser and user."""
        return hmac.compare_digest(given.encode(), self.token(browser, user).encode())


def is_from_us(headers: Mapping[str, str]) -> bool:
    """Whether a browser says that a page of this site, or its user, makes the request.

    A client that is no browser says nothing, and has no cookies that it was not given.
    """
    if headers.get("Sec-Fetch-Site", "same-origin") not in {"same-origin", "none"}:
        return False
    origin = headers.get("Origin")
    return origin is None or origin.partition("://")[2] == headers.get("Host", "")
