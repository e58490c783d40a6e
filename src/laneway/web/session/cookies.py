"""The cookies of the interface: sealed, and out of reach of scripts, other sites and plain HTTP.

They are `Secure` also where `laneway up` serves them on this machine without TLS: browsers take
loopback for secure. Where the browser came by HTTPS their names say that only this host can have
set them (`__Host-`). Names have the port, because browsers keep one set of cookies for all ports
of a host, such as those of `kubectl port-forward`. What a handler writes is sent with whatever
answer comes of the request, also with the beginning of a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from aiohttp import web

from laneway.web.session.peers import Network, is_https
from laneway.web.session.sealing import KEPT_SECONDS, Keyring

SESSION_ID = "session"
BROWSER = "browser"
OIDC = "oidc"

SameSite = Literal["Strict", "Lax"]


class _Cookie(NamedTuple):
    content: str | None
    same_site: SameSite = "Strict"
    seconds: int | None = None


_WRITTEN: web.RequestKey[dict[str, _Cookie]] = web.RequestKey("cookies", dict)


class Cookies:
    """Reads and writes them."""

    def __init__(self, keyring: Keyring, proxies: Sequence[Network]) -> None:
        self._keyring = keyring
        self._proxies = proxies

    def read(self, request: web.Request, kind: str, seconds: float = KEPT_SECONDS) -> str:
        """What a cookie has that this process made; empty if there is none."""
        if (written := request.get(_WRITTEN, {}).get(kind)) is not None:
            return written.content or ""
        text = request.cookies.get(self._name(request, kind), "")
        return (self._keyring.open(kind, text, seconds) or "") if text else ""

    def has(self, request: web.Request, kind: str) -> bool:
        """Whether the browser sent a cookie, whatever it is worth."""
        return self._name(request, kind) in request.cookies

    def write(
        self,
        request: web.Request,
        kind: str,
        content: str,
        *,
        same_site: SameSite = "Strict",
        seconds: int | None = None,
    ) -> None:
        """Send a cookie with the answer; `seconds`: None keeps it until the browser ends."""
        self._written(request)[kind] = _Cookie(content, same_site, seconds)

    def remove(self, request: web.Request, kind: str) -> None:
        self._written(request)[kind] = _Cookie(None)

    async def put(self, request: web.Request, response: web.StreamResponse) -> None:
        """Add what was written; a signal handler of `on_response_prepare`."""
        written = request.get(_WRITTEN)
        for kind, cookie in (written or {}).items():
            sealed = self._keyring.seal(kind, cookie.content) if cookie.content else ""
            seconds = cookie.seconds if cookie.content else 0
            attributes = f"Path=/; HttpOnly; Secure; SameSite={cookie.same_site}"
            if seconds is not None:
                attributes += f"; Max-Age={seconds}"
            # aiohttp has made headers of its own cookies by now.
            response.headers.add(
                "Set-Cookie", f"{self._name(request, kind)}={sealed}; {attributes}"
            )
        if written:
            response.headers["Cache-Control"] = "no-store"

    @staticmethod
    def _written(request: web.Request) -> dict[str, _Cookie]:
        if _WRITTEN not in request:
            request[_WRITTEN] = {}
        return request[_WRITTEN]

    def _name(self, request: web.Request, kind: str) -> str:
        prefix = "__Host-" if is_https(request, self._proxies) else ""
        port = request.host.rpartition(":")[2]
        suffix = f"-{port}" if port.isascii() and port.isdigit() else ""
        return f"{prefix}laneway-{kind}{suffix}"
