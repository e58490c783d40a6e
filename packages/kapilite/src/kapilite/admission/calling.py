"""The HTTPS client of webhooks.

One pool of connections serves all webhooks that name a URL, another those behind Services; in a
pool, a connection belongs to a host and a CA bundle, so configurations that share both share
connections too. Only the CA bundle (the system's roots, where there is none) decides whom to
trust. Neither proxies nor credentials come from the environment, a redirect is an answer like any
other, and an answer may only be so long.

Failures read as they do from a real API server (`failures`), because people search for the texts.
"""

from __future__ import annotations

import asyncio
import math
import posixpath
import socket
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from kapilite.admission import failures, services
from kapilite.admission.configuration import Service

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import SimpleNamespace

    from kapilite.admission.configuration import Endpoint
    from kapilite.storage.store import Store

ANSWER_LIMIT = 8 * 1024 * 1024
"""Bytes: a patch that replaces the largest object, in base64, and room to spare."""

_HEADERS = {
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "kube-apiserver-admission",
}


class Caller:
    """Posts reviews to webhooks; owns the connections."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._trust: dict[bytes, ssl.SSLContext] = {}
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def post(self, endpoint: Endpoint, body: bytes, seconds: float) -> bytes:
        """The answer to a review; CallError where there is none within the time."""
        trust = self._context(endpoint.ca_bundle)
        url = _url(endpoint, seconds)
        session = self._session(behind_service=endpoint.service is not None)
        try:
            async with asyncio.timeout(seconds):
                return await _post(session, url, body, trust)
        except (TimeoutError, aiohttp.ClientError, services.Unresolved, OSError, ValueError) as why:
            raise failures.failed(url, why) from why

    def keep(self, endpoints: Iterable[Endpoint]) -> None:
        """Forget whom to trust for endpoints that are no longer configured.

        Their connections end by themselves, as no request can take one up again.
        """
        bundles = {endpoint.ca_bundle for endpoint in endpoints}
        self._trust = {key: found for key, found in self._trust.items() if key in bundles}

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()

    def _session(self, *, behind_service: bool) -> aiohttp.ClientSession:
        session = self._sessions.get(behind_service)
        if session is None:
            # No limit: a webhook that calls back may need another webhook to be answered first.
            connector = aiohttp.TCPConnector(
                limit=0,
                use_dns_cache=not behind_service,
                resolver=_Services(self._store) if behind_service else None,
            )
            trace = aiohttp.TraceConfig()
            trace.on_connection_reuseconn.append(_note_reuse)
            session = self._sessions[behind_service] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                auto_decompress=False,
                trace_configs=[trace],
            )
        return session

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._trust.get(ca_bundle)
        if context is None:
            context = self._trust[ca_bundle] = _trusting(ca_bundle)
        return context


class _Services(AbstractResolver):
    """Finds what listens for a Service, by the host name `NAME.NAMESPACE.svc`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._names = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        name, _, rest = host.partition(".")
        namespace = rest.removesuffix(".svc")
        found: list[ResolveResult] = []
        for place in services.resolve(self._store, Service(namespace, name, port=port)):
            found += await self._names.resolve(place.host, place.port, family)
        return found

    async def close(self) -> None:
        await self._names.close()


async def _post(
    session: aiohttp.ClientSession, url: str, body: bytes, trust: ssl.SSLContext
) -> bytes:
    while True:
        attempt: dict[str, bool] = {}
        try:
            async with session.post(
                URL(url, encoded=True),
                data=body,
                headers=_HEADERS,
                ssl=trust,
                allow_redirects=False,
                trace_request_ctx=attempt,
            ) as response:
                return await _answer(response)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            # A connection that was kept may have been closed by the time it is used again, which
            # says nothing about the webhook.
            if not attempt.get("reused"):
                raise


async def _answer(response: aiohttp.ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > ANSWER_LIMIT:
            raise failures.failure(f"the answer is longer than {ANSWER_LIMIT} bytes")
    body = b"".join(parts)
    if not 200 <= response.status <= 206:
        raise failures.failure(failures.status_text(response.status, response.content_type, body))
    return body


async def _note_reuse(_: aiohttp.ClientSession, context: SimpleNamespace, __: Any) -> None:
    context.trace_request_ctx["reused"] = True


def _url(endpoint: Endpoint, seconds: float) -> str:
    """Where to post; the webhook gets its time limit."""
    if endpoint.service:
        base, path = (
            f"https://{endpoint.service.host}:{endpoint.service.port}",
            endpoint.service.path,
        )
    else:
        parts = urlsplit(endpoint.url)
        base, path = f"https://{parts.netloc}", parts.path
    path = posixpath.normpath("/" + path.strip("/"))
    return f"{base}{path}?timeout={math.ceil(seconds)}s"


def _trusting(ca_bundle: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # A certificate in the bundle is trusted as it is, without its issuers.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not ca_bundle:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return context
    try:
        context.load_verify_locations(cadata=ca_bundle.decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        text = "unable to load root certificates: unable to parse bytes as PEM block"
        raise failures.CallError(f"could not get REST client: {text}") from error
    return context
