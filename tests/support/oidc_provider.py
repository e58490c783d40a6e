"""An identity provider for tests: it signs as real ones do, and checks what they check."""

from __future__ import annotations

import base64
import contextlib
import functools
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import rsa

from kapilite.authn import Authenticator
from kapilite.authn.tokens import ISSUER, InvalidToken, Verified
from kapilite.authn.users import User
from kubebasics.serving.listening import listening

CLIENT, SECRET = "laneway", "s3cret"


@functools.cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class OidcProvider:
    """One user, one client."""

    def __init__(self) -> None:
        self.issuer = ""
        self.seconds = 300.0
        """For how long tokens are good."""
        self.changes: dict[str, Any] = {}
        """Claims that are other than they should be."""
        self.refreshes = True
        self.renewed = 0
        self.key = _key()
        self._codes: dict[str, Mapping[str, str]] = {}
        self._refresh_token = ""

    async def discovery(self, _request: web.Request) -> web.Response:
        found = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize?tenant=a",
            "token_endpoint": f"{self.issuer}/token",
            "scopes_supported": ["openid", "email", "offline_access"],
        }
        return web.json_response(found)

    async def authorize(self, request: web.Request) -> web.Response:
        """The user agrees at once."""
        query = request.query
        assert query["tenant"] == "a"
        assert query["response_type"] == "code"
        assert query["code_challenge_method"] == "S256"
        assert query["scope"] == "openid email offline_access"
        assert query["client_id"] == CLIENT
        code = secrets.token_urlsafe(8)
        self._codes[code] = dict(query)
        back = urlencode({"code": code, "state": query["state"]})
        return web.Response(status=302, headers={"Location": f"{query['redirect_uri']}?{back}"})

    async def token(self, request: web.Request) -> web.Response:
        expected = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        if request.headers.get("Authorization") != f"Basic {expected}":
            return web.json_response({"error": "invalid_client"}, status=401)
        form = await request.post()
        if form["grant_type"] == "refresh_token":
            if form["refresh_token"] != self._refresh_token:
                return web.json_response({"error": "invalid_grant"}, status=400)
            self.renewed += 1
            return web.json_response(self._answer({}))
        asked = self._codes.pop(str(form["code"]), None)
        digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or asked["code_challenge"] != challenge:
            return web.json_response({"error": "invalid_grant"}, status=400)
        assert form["redirect_uri"] == asked["redirect_uri"]
        return web.json_response(self._answer({"nonce": asked["nonce"]}))

    def revoke(self) -> None:
        """Renew nothing more."""
        self._refresh_token = ""

    def _answer(self, more: Mapping[str, Any]) -> dict[str, str]:
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": "user-1",
            "email": "carol@example.com",
            "exp": time.time() + self.seconds,
            "jti": secrets.token_hex(4),
            **more,
            **self.changes,
        }
        answer = {"id_token": jwt.encode(claims, self.key, algorithm="RS256")}
        if self.refreshes:
            # Each is good once, as with providers that rotate them.
            self._refresh_token = secrets.token_urlsafe(8)
            answer["refresh_token"] = self._refresh_token
        return answer


class TrustsProvider(Authenticator):
    """An API server's, with `--oidc-issuer-url` and `--oidc-username-claim=email`."""

    def __init__(self, tokens: Mapping[str, User], provider: OidcProvider) -> None:
        super().__init__(tokens)
        self._provider = provider

    def by_token(self, token: str, audiences: Sequence[str] = (ISSUER,)) -> Verified:
        key = self._provider.key.public_key()
        try:
            claims = jwt.decode(token, key, ["RS256"], audience=CLIENT)
        except jwt.PyJWTError:
            return super().by_token(token, audiences)
        if claims["iss"] != self._provider.issuer:
            raise InvalidToken
        return Verified(User(claims["email"], ("system:authenticated",)), (ISSUER,))


@contextlib.asynccontextmanager
async def provider() -> AsyncIterator[OidcProvider]:
    """A provider that listens."""
    found = OidcProvider()
    app = web.Application()
    app.router.add_get("/.well-known/openid-configuration", found.discovery)
    app.router.add_get("/authorize", found.authorize)
    app.router.add_post("/token", found.token)
    async with listening(app, "127.0.0.1", 0, finish_seconds=1.0, cancels=True) as port:
        found.issuer = f"http://127.0.0.1:{port}"
        yield found
