"""One request after another to one API server: time limits, identity, TLS, and what to repeat.

An answer has a time limit for its beginning, for its silence and, but for an endless one, for all
of it. The last is longer, so that a list comes through a slow line. A request is repeated only
where that cannot do anything twice: the server said 429 or 503 and when to come back; a GET could
not connect; a 401 was answered to credentials, or a certificate not trusted by authorities, that
have been renewed since. Everything else is raised, also when the server is not to be asked again
for longer than a caller can be kept waiting.

Of a server that may mean harm no more than so many bytes of an answer are read. Compressed ones are
not even requested there, and not unpacked: a few of their bytes can stand for any number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from kubebasics.serving import tls_buffers
from laneway.kube.auth import Credentials, Identity
from laneway.kube.cluster import Cluster
from laneway.kube.errors import (
    ApiError,
    CutOffError,
    UnauthorizedError,
    UndecodableError,
    UnreachableError,
    from_status,
)
from laneway.kube.tls import authorities, client_context
from laneway.kube.transport import failure_text, hang_up, warning_texts

WARNINGS = f"{__name__}.warnings"
"""The log of what servers warn of: the host, then the text."""
warned = logging.getLogger(WARNINGS)

JSON = "application/json"
CONNECT_SECONDS = 10.0
CONNECT_DELAYS = (0.1, 0.4, 1.6)
"""Waits before a GET that could not connect is repeated; none if the caller asks so."""
MAX_WAITS = 3
MAX_WAIT_SECONDS = 30.0
"""A longer `Retry-After` is for the caller to observe."""
_SLOW = 10
"""How many times longer an answer may take than be silent, unless its server may mean harm."""
_REFUSAL_BYTES = 1 << 20
"""Of a refusal; what has more is no `Status`, and only its first words are shown."""
_WARNINGS_KEPT = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask, without who asks."""

    method: str
    path: str
    params: Mapping[str, str]
    body: bytes | None = None
    content_type: str = JSON
    read_seconds: float | None = None
    """For an endless answer: how long silence is borne. None: the whole answer has a limit."""
    waits: int = MAX_WAITS
    """How often the server may put it off before that is raised."""


class Connection:
    """The way to one API server."""

    def __init__(
        self,
        cluster: Cluster,
        credentials: Credentials,
        *,
        user_agent: str,
        request_seconds: float,
        answer_bytes: int | None = None,
        connect_delays: Sequence[float] = CONNECT_DELAYS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`answer_bytes`: how much of an answer is read; None: all of it.

        `connect_delays`: the waits before a GET that could not connect is repeated.

        Raises ConfigError when the certificate authority is of no use.
        """
        self._cluster = cluster
        self._base = cluster.server.rstrip("/")
        self._host = urlsplit(self._base).netloc
        self._credentials = credentials
        self._headers = {"Accept": JSON, "User-Agent": user_agent}
        if answer_bytes is not None:
            self._headers["Accept-Encoding"] = "identity"
        self._answer_bytes = answer_bytes
        self._request_seconds = request_seconds
        self._answer_seconds = request_seconds * (_SLOW if answer_bytes is None else 1)
        self._connect_delays = connect_delays
        self._sleep = sleep
        self._authorities = authorities(cluster)
        self._context = client_context(cluster, self._authorities)
        self._context_for = (self._authorities, b"", b"")
        self._session: aiohttp.ClientSession | None = None
        self._warned: set[str] = set()

    def open(self) -> None:
        tls_buffers.limit()
        self._session = aiohttp.ClientSession(
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=self._answer_bytes is None,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def body(self, request: Request) -> bytes:
        """A good answer, all of it.

        Raises what `answer` does, and UndecodableError when it has more than is to be read.
        """
        limit = self._answer_bytes
        async with self.answer(request) as response:
            if limit is None:
                return await response.read()
            text = await _beginning(response, limit + 1)
        if len(text) > limit:
            raise UndecodableError(
                f"the answer from {self._host} to {request.method} {request.path} has more than "
                f"the {limit} bytes that are read of one"
            )
        return text

    @contextlib.asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """A good answer, its body not read yet.

        Raises ApiError, UnreachableError, and CutOffError for what happens while it is read.
        """
        try:
            response = await self._ask(request)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _unless_cancelled()
            text = f"no answer from {self._host}: {failure_text(error)}"
            raise UnreachableError(text) from error
        async with response:
            try:
                yield response
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                text = f"the answer from {self._host} broke off: {failure_text(error)}"
                raise CutOffError(text) from error
            finally:
                hang_up(response)

    async def _ask(self, request: Request) -> aiohttp.ClientResponse:
        waits = 0
        renewed = False
        while True:
            identity = await self._credentials.identity()
            trusted = self._authorities
            try:
                response = await self._send(request, identity)
            except aiohttp.ClientConnectorCertificateError:
                if not self._renewed(trusted):
                    raise
                continue
            except aiohttp.ClientConnectorError as error:
                safe = request.method == "GET" and not isinstance(error, aiohttp.ClientSSLError)
                if not safe or waits >= len(self._connect_delays):
                    raise
                delay = self._connect_delays[waits]
            else:
                if self._answer_bytes is None:  # else it could fill the log
                    self._log_warnings(response)
                if response.status < 300:
                    return response
                refusal = await _refusal(response)
                if isinstance(refusal, UnauthorizedError) and not renewed:
                    renewed = True
                    self._credentials.reject(identity)
                    if await self._credentials.identity() != identity:
                        continue
                if waits >= request.waits:
                    raise refusal
                delay = _put_off(refusal)
            waits += 1
            await self._sleep(delay)

    async def _send(self, request: Request, identity: Identity) -> aiohttp.ClientResponse:
        if self._session is None:
            raise RuntimeError("the client is used outside of its `async with` block")
        headers = {"Content-Type": request.content_type} if request.body is not None else {}
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        async with asyncio.timeout(self._request_seconds):
            return await self._session.request(
                request.method,
                URL(self._base + request.path, encoded=True).update_query(request.params),
                data=request.body,
                headers=headers,
                timeout=self._limits(request),
                # A redirect would carry our credentials to wherever it points.
                allow_redirects=False,
                ssl=self._tls(identity),
                server_hostname=self._cluster.tls_server_name or None,
                proxy=self._cluster.proxy_url or None,
            )

    def _limits(self, request: Request) -> aiohttp.ClientTimeout:
        """How long an answer may take, and be silent, once it has begun."""
        total = None if request.read_seconds is not None else self._answer_seconds
        silence = request.read_seconds or self._request_seconds
        return aiohttp.ClientTimeout(total, sock_connect=CONNECT_SECONDS, sock_read=silence)

    def _tls(self, identity: Identity) -> ssl.SSLContext:
        """The context of an identity; another one means other connections."""
        wanted = (self._authorities, identity.certificate, identity.key)
        if wanted != self._context_for:
            self._context = client_context(self._cluster, *wanted)
            self._context_for = wanted
        return self._context

    def _renewed(self, trusted: str | None) -> bool:
        """Whether other authorities than those are trusted by now, by the file that has them."""
        self._authorities = authorities(self._cluster)
        return self._authorities != trusted

    def _log_warnings(self, response: aiohttp.ClientResponse) -> None:
        for text in warning_texts(response.headers.getall("Warning", [])):
            if text not in self._warned and len(self._warned) < _WARNINGS_KEPT:
                self._warned.add(text)
                warned.warning("%s warns: %s", self._host, text)


def _unless_cancelled() -> None:
    """A connection that is closed because we are cancelled must not pass for a broken one."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _beginning(response: aiohttp.ClientResponse, limit: int) -> bytes:
    pieces, left = [], limit
    while left > 0 and (piece := await response.content.read(left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _put_off(refusal: ApiError) -> float:
    """For how long a request is to wait; raises the refusal if it is not."""
    seconds = refusal.retry_after
    if refusal.code not in {429, 503} or seconds is None or seconds > MAX_WAIT_SECONDS:
        raise refusal
    return seconds


async def _refusal(response: aiohttp.ClientResponse) -> ApiError:
    text = response.headers.get("Retry-After", "")
    seconds = float(text[:9]) if text.isascii() and text.isdigit() else None
    async with response:
        return from_status(await _beginning(response, _REFUSAL_BYTES), response.status, seconds)
