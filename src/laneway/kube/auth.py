"""Who we say we are, kept current.

Credentials change under a running process: tokens of pods are replaced every hour, exec plugins
issue short-lived ones, certificates are renewed on disk. So an identity is fetched, kept for as
long as its source says, and fetched again early when the server answers 401 to it. One fetch runs
at a time however many requests wait for it.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from laneway.kube.cluster import Cluster, ClusterConfig, ExecPlugin, User, read_file
from laneway.kube.errors import ConfigError, CredentialsError
from laneway.kube.execplugin import Issued, run_plugin

FILE_SECONDS = 60.0
"""How long the content of a token or certificate file is taken to be the newest."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What is presented with a request: a header, a certificate, both or neither."""

    authorization: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """An identity and until when it may be used (seconds since the epoch); None: for ever."""

    identity: Identity
    expires: float | None = None


class Credentials:
    """The current identity of one user."""

    def __init__(
        self, fetch: Callable[[], Awaitable[Fetched]], clock: Callable[[], float] = time.time
    ) -> None:
        self._fetch = fetch
        self._clock = clock
        self._cached: Fetched | None = None
        self._lock = asyncio.Lock()

    async def identity(self) -> Identity:
        """What to present now. Raises CredentialsError."""
        async with self._lock:
            cached = self._cached
            if cached is None or (cached.expires is not None and self._clock() >= cached.expires):
                cached = self._cached = await self._fetch()
            return cached.identity

    def reject(self, identity: Identity) -> None:
        """The server refused this identity: fetch again, unless that has happened already."""
        if self._cached is not None and self._cached.identity == identity:
            self._cached = None


def credentials_for(config: ClusterConfig, clock: Callable[[], float] = time.time) -> Credentials:
    """The credentials that a configuration describes."""
    user = config.user
    if user.exec is not None:
        plugin = user.exec
        return Credentials(lambda: _from_plugin(plugin, config.cluster, user), clock)
    return Credentials(lambda: _from_files(user, clock), clock)


async def _from_plugin(plugin: ExecPlugin, cluster: Cluster, user: User) -> Fetched:
    issued: Issued = await run_plugin(plugin, cluster)
    own = _identity(user)
    return Fetched(
        Identity(
            f"Bearer {issued.token}" if issued.token else own.authorization,
            issued.certificate or own.certificate,
            issued.key or own.key,
        ),
        issued.expires,
    )


async def _from_files(user: User, clock: Callable[[], float]) -> Fetched:
    pems = [pem for pem in (user.certificate, user.key) if pem is not None]
    has_files = bool(user.token_file) or any(pem.path and not pem.data for pem in pems)
    return Fetched(_identity(user), clock() + FILE_SECONDS if has_files else None)


def _identity(user: User) -> Identity:
    try:
        return Identity(
            _authorization(user),
            user.certificate.read() if user.certificate else b"",
            user.key.read() if user.key else b"",
        )
    except ConfigError as error:
        raise CredentialsError(str(error)) from None


def _authorization(user: User) -> str:
    if user.token_file:
        token = read_file(user.token_file).decode("utf-8", "replace").strip()
        if not _is_header(token):
            raise CredentialsError(f"{user.token_file}: holds no token; check the file")
        return f"Bearer {token}"
    if user.token:
        if not _is_header(user.token):
            raise CredentialsError("the token has invalid characters; check it")
        return f"Bearer {user.token}"
    if user.username:
        pair = f"{user.username}:{user.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _is_header(token: str) -> bool:
    """Whether the text can stand in a header: nothing that would end it or break its encoding."""
    return bool(token) and token.isascii() and token.isprintable()
