"""Recognises the user behind a request.

A certificate counts before a token. Static tokens are kept only as digests and compared as such,
so neither a log line, a traceback nor the time of a comparison can tell one. A token without a
user is an error and never makes the request an anonymous one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiohttp import web

from kapilite.authn.tokens import ISSUER, InvalidToken, Verified
from kapilite.authn.users import ANONYMOUS, User, authenticated
from kapilite.errors import ApiError

if TYPE_CHECKING:
    from kapilite.authn.tokens import ServiceAccountTokens

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Middleware = Callable[[web.Request, Handler], Awaitable[web.StreamResponse]]

USER = web.RequestKey("user", User)
"""Where a handler finds the user: `request[USER]`."""


class Authenticator:
    """Recognises the holders of tokens and of client certificates."""

    def __init__(
        self,
        tokens: Mapping[str, User],
        service_accounts: ServiceAccountTokens | None = None,
    ) -> None:
        self._users = {
            _digest(token): authenticated(user) for token, user in tokens.items() if token
        }
        self._service_accounts = service_accounts

    def attach(self, service_accounts: ServiceAccountTokens) -> None:
        """Recognise the tokens of service accounts too, as soon as there is a store to ask."""
        self._service_accounts = service_accounts

    def authenticate(self, request: web.Request) -> User:
        """The user, `ANONYMOUS` where nothing was presented. Raises a 401 for a wrong token."""
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport else None
        if user := self.by_certificate(certificate or {}):
            return user
        headers = request.headers.getall("Authorization", [])
        if len(headers) > 1:
            raise unauthorized()
        token = bearer(headers[0]) if headers else ""
        if not token:
            return ANONYMOUS
        try:
            return self.by_token(token).user
        except InvalidToken:
            raise unauthorized() from None

    def by_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        """The user that a token identifies to one of these audiences. Raises InvalidToken."""
        known = self._users.get(_digest(token))
        if known is not None:
            if ISSUER not in audiences:
                raise InvalidToken
            return Verified(known, (ISSUER,))
        if self._service_accounts is None:
            raise InvalidToken
        found = self._service_accounts.verify(token, audiences)
        return Verified(authenticated(found.user), found.audiences)

    @staticmethod
    def by_certificate(certificate: Mapping[str, Any]) -> User | None:
        """Common name and organisations of a certificate that the TLS layer has verified."""
        subject = [pair for part in certificate.get("subject", ()) for pair in part]
        name = next((value for key, value in subject if key == "commonName"), "")
        groups = tuple(value for key, value in subject if key == "organizationName")
        return authenticated(User(name, groups)) if name else None


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def bearer(authorization: str) -> str:
    """The token in a header; empty where it has none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()
