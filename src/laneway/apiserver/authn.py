"""Who is asking: a client certificate signed by our CA, or a bearer token.

A request without a valid credential gets a 401 Status before any handler sees it, except on the
few addresses that health checks and version probes need. Tokens are kept only as digests and
compared as such, so neither a log line, a traceback nor the time of a comparison can tell one.

This answers who, not what: every authenticated user may do everything for now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from aiohttp import web

from laneway.apiserver.errors import ApiError

OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]


class User(msgspec.Struct, frozen=True):
    """An authenticated identity."""

    name: str
    groups: tuple[str, ...] = ()


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))

USER = web.RequestKey("user", User)
"""Where a handler finds the user: `request[USER]`."""


class Authenticator:
    """Recognises the holders of tokens and of client certificates."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        self._users = {_digest(token): user for token, user in tokens.items() if token}

    def authenticate(self, request: web.Request) -> User | None:
        """The user, or None where nothing presented is valid."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        return self.by_certificate(certificate or {}) or self.by_header(
            request.headers.get("Authorization", "")
        )

    def by_header(self, authorization: str) -> User | None:
        scheme, _, token = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            return None
        return self._users.get(_digest(token.strip()))

    @staticmethod
    def by_certificate(certificate: Mapping[str, Any]) -> User | None:
        """Common name and organisations of a certificate that the TLS layer has verified."""
        subject = [pair for part in certificate.get("subject", ()) for pair in part]
        name = next((value for key, value in subject if key == "commonName"), "")
        groups = tuple(value for key, value in subject if key == "organizationName")
        return User(name, groups) if name else None


def middleware(authenticator: Authenticator) -> Middleware:
    """Aiohttp middleware that lets only known users past the open addresses."""

    @web.middleware
    async def authenticated(request: web.Request, handler: Handler) -> web.StreamResponse:
        user = authenticator.authenticate(request)
        if user is None:
            if request.path not in OPEN_PATHS:
                error = ApiError(401, "Unauthorized", "Unauthorized")
                return web.json_response(error.status(), status=error.code)
            user = ANONYMOUS
        request[USER] = user
        return await handler(request)

    return authenticated


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
