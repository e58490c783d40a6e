"""Sign-in at an identity provider: OpenID Connect's authorization code flow with PKCE.

The id_token is the token for the API server, as with kubectl; the API server checks its signature.
Here its claims are checked: it comes from the issuer by TLS, for this client, for this sign-in, and
for the same user when it is renewed (OpenID Connect Core 1.0, 3.1.3.7 and 12.2). State, nonce and
verifier stay in the browser, sealed: the process remembers nothing of sign-ins that are not ended.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
import msgspec

from laneway.kube.auth import Credentials, Fetched, Identity
from laneway.kube.cluster import read_file
from laneway.kube.errors import ConfigError, CredentialsError
from laneway.kube.transport import failure_text
from laneway.web.session.identity import TOKEN_BYTES, claims_of

CALLBACK = "/sign-in/oidc/callback"
DISCOVERY_SECONDS = 3600.0
RENEW_SECONDS = 60.0
"""How long before its end a token is renewed."""
_SECONDS = 10.0
_ANSWER_BYTES = 1 << 20
_T = TypeVar("_T")
_WORD = re.compile(r"[^A-Za-z0-9_.-]")
_SCOPES = ("openid", "profile", "email", "groups", "offline_access")


class ProviderError(Exception):
    """The provider did not do its part; the text says what it did, and never a secret."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """The client that the provider knows Laneway as."""

    issuer: str
    client_id: str
    redirect_url: str
    """This interface as browsers reach it, with the path `/sign-in/oidc/callback`."""
    client_secret_file: str = ""
    """Empty: a public client, which PKCE alone protects."""
    ca_file: str = ""
    """The authorities of the provider; empty: the system's."""


class Pending(msgspec.Struct, frozen=True):
    """A sign-in that the user is at the provider for."""

    state: str
    nonce: str
    verifier: str
    browser: str
    next: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the provider issued."""

    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    subject: str
    expires: float


class _Discovery(msgspec.Struct, frozen=True):
    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    scopes_supported: tuple[str, ...] = ("openid",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)


class _Answer(msgspec.Struct, frozen=True):
    id_token: str = ""
    refresh_token: str = ""
    error: str = ""


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    exp: float
    aud: str | tuple[str, ...]
    nonce: str = ""


class Provider:
    """One identity provider."""

    def __init__(self, settings: OidcSettings, clock: Callable[[], float] = time.time) -> None:
        """Raises ConfigError for settings that are of no use."""
        _check_address(settings.issuer, "the issuer")
        _check_address(settings.redirect_url, "the redirect URL")
        if urlsplit(settings.redirect_url).path != CALLBACK:
            raise ConfigError(
                f"OIDC: the redirect URL has another path than {CALLBACK}; write it as "
                f"https://HOST{CALLBACK}"
            )
        self._settings = settings
        self._clock = clock
        self._discovered: tuple[float, _Discovery] | None = None
        self._tls = _trust(settings.ca_file)

    async def begin(self, browser: str, next_: str) -> tuple[str, Pending]:
        """Where the browser is to go, and what it is to keep. Raises ProviderError."""
        found = await self._discovery()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        pending = Pending(state, nonce, verifier, browser, next_)
        digest = hashlib.sha256(pending.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self._settings.redirect_url,
            "scope": " ".join(scope for scope in _SCOPES if scope in found.scopes_supported),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in found.authorization_endpoint else "?"
        return f"{found.authorization_endpoint}{joint}{urlencode(query)}", pending

    async def finish(self, code: str, pending: Pending) -> Tokens:
        """The tokens for a code that the provider sent the browser with. Raises ProviderError."""
        answer = await self._tokens(
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": self._settings.redirect_url,
                "code_verifier": pending.verifier,
            }
        )
        tokens, nonce = self._checked(answer)
        if not secrets.compare_digest(nonce.encode(), pending.nonce.encode()):
            raise ProviderError("its token is of another sign-in")
        return tokens

    def credentials(self, tokens: Tokens) -> Credentials:
        """What is presented to the API server: the token, renewed as long as the provider does."""
        held = tokens

        async def fetch() -> Fetched:
            nonlocal held
            if held.refresh_token and self._clock() >= held.expires - RENEW_SECONDS:
                try:
                    held = await self._renew(held)
                except ProviderError as error:
                    if self._clock() >= held.expires:
                        raise CredentialsError(f"the sign-in cannot be renewed: {error}") from None
            soon = max(held.expires - RENEW_SECONDS, self._clock() + 1)
            return Fetched(Identity(f"Bearer {held.id_token}"), soon)

        return Credentials(fetch, self._clock)

    async def _renew(self, held: Tokens) -> Tokens:
        answer = await self._tokens(
            {"grant_type": "refresh_token", "refresh_token": held.refresh_token}
        )
        tokens, _ = self._checked(answer)
        if tokens.subject != held.subject:
            raise ProviderError("its new token is of another user")
        kept = tokens.refresh_token or held.refresh_token
        return Tokens(tokens.id_token, kept, tokens.subject, tokens.expires)

    def _checked(self, answer: _Answer) -> tuple[Tokens, str]:
        """The tokens and their nonce, if they are from the issuer and for us."""
        if not answer.id_token or len(answer.id_token) > TOKEN_BYTES:
            raise ProviderError("it sent no id_token of a usable size")
        try:
            claims = claims_of(answer.id_token, _Claims)
        except ValueError:
            raise ProviderError("its id_token cannot be read") from None
        audience = (claims.aud,) if isinstance(claims.aud, str) else claims.aud
        if claims.iss != self._settings.issuer or self._settings.client_id not in audience:
            raise ProviderError("its id_token is of another issuer or for another client")
        if claims.exp <= self._clock():
            raise ProviderError("its id_token has expired; check the clocks")
        tokens = Tokens(answer.id_token, answer.refresh_token, claims.sub, claims.exp)
        return tokens, claims.nonce

    async def _tokens(self, form: Mapping[str, str]) -> _Answer:
        found = await self._discovery()
        fields = {"client_id": self._settings.client_id, **form}
        headers = {}
        if secret := self._secret():
            if "client_secret_basic" in found.token_endpoint_auth_methods_supported:
                headers["Authorization"] = _basic(self._settings.client_id, secret)
            else:
                fields["client_secret"] = secret
        answer = await self._request("POST", found.token_endpoint, _Answer, fields, headers)
        if answer.error:
            raise ProviderError(f"it answered {_word(answer.error)}")
        return answer

    async def _discovery(self) -> _Discovery:
        now = self._clock()
        if self._discovered and now < self._discovered[0] + DISCOVERY_SECONDS:
            return self._discovered[1]
        address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        found = await self._request("GET", address, _Discovery)
        if found.issuer != self._settings.issuer:
            raise ProviderError("it calls itself another issuer than the configured one")
        for endpoint in (found.authorization_endpoint, found.token_endpoint):
            try:
                _check_address(endpoint, "an endpoint")
            except ConfigError as error:
                raise ProviderError(str(error)) from None
        self._discovered = (now, found)
        return found

    async def _request(
        self,
        method: str,
        address: str,
        form: type[_T],
        fields: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _T:
        timeout = aiohttp.ClientTimeout(_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method,
                    address,
                    data=fields,
                    headers={"Accept": "application/json", **(headers or {})},
                    ssl=self._tls,
                    allow_redirects=False,
                ) as response,
            ):
                text = await _body(response)
                # A refusal of a code or token is a 400 or 401 with an `error`.
                if response.status not in {200, 400, 401}:
                    raise ProviderError(f"it answered HTTP {response.status}")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ProviderError(f"no answer: {failure_text(error)}") from None
        try:
            return msgspec.json.decode(text, type=form)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise ProviderError("its answer cannot be read") from None

    def _secret(self) -> str:
        path = self._settings.client_secret_file
        try:
            return read_file(path).decode().strip() if path else ""
        except (ConfigError, UnicodeDecodeError):
            raise ProviderError("the file with the client secret cannot be read") from None


async def _body(response: aiohttp.ClientResponse) -> bytes:
    text = bytearray()
    async for piece in response.content.iter_any():
        text += piece
        if len(text) > _ANSWER_BYTES:
            raise ProviderError("its answer is too long")
    return bytes(text)


def _trust(ca_file: str) -> ssl.SSLContext:
    if not ca_file:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cadata=read_file(ca_file).decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise ConfigError(f"{ca_file}: holds no PEM certificates; give the provider's CA") from None


def _check_address(address: str, what: str) -> None:
    """Tokens go by TLS, or do not leave the machine."""
    try:
        parts = urlsplit(address)
        is_here = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
        is_safe = (parts.scheme == "https" or is_here) and bool(parts.hostname)
    except ValueError:
        is_safe = False
    if not is_safe or parts.username or parts.fragment:
        raise ConfigError(f"OIDC: {what} is not an https URL; write it as https://HOST/PATH")


def _basic(client: str, secret: str) -> str:
    """RFC 6749, 2.3.1: both are encoded as in a form before."""
    pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


def _word(text: str) -> str:
    """An error code of the provider, as far as it is one."""
    return _WORD.sub("", text)[:60] or "an error"
