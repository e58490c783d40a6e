"""What lies between a role and its API server, and goes wrong: load balancers, tunnels, the server.

A proxy passes requests on to a server, counts them, and does to them what a test says. A role that
uses it talks plain HTTP to it, whatever the server itself speaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import msgspec
from aiohttp import web
from yarl import URL

from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.tls import authorities
from support.asked import WRITES, Asked, read

SECONDS = 60.0
_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}


@dataclass(eq=False)
class Fault:
    """What happens to some requests; `hits` are those it has happened to."""

    verb: str
    resource: str
    times: float
    holds: Callable[[Asked], bool]
    status: int = 0
    """The answer in place of the server's; 0: the server carries the request out, and its answer is
    lost."""
    headers: dict[str, str] = field(default_factory=dict)
    hits: list[Asked] = field(default_factory=list)

    def meets(self, asked: Asked) -> bool:
        return (
            len(self.hits) < self.times
            and self.verb in ("", asked.verb)
            and self.resource in ("", asked.resource)
            and self.holds(asked)
        )


class FaultProxy:
    """A proxy for one client. By itself it does no harm."""

    def __init__(self, config: ClusterConfig) -> None:
        """`config`: how the client reaches the server without it."""
        self.asked: list[Asked] = []
        self.faults: list[Fault] = []
        self.slow = 0.0
        """The seconds between the small pieces in which answers come; 0: they come whole."""
        self.page = 0
        """How many objects a page of a list has at most, as a server may decide; 0: as many as
        are asked for."""
        self.swallows = False
        """Whether no request comes through any more, as when packets are dropped."""
        self.passes = asyncio.Event()
        """While it is not set, requests wait, as in the queue of a server with too much to do."""
        self.passes.set()
        self._config = config
        self._under_way: set[Asked] = set()
        self._open: set[asyncio.Transport] = set()
        self._stuck: set[asyncio.Transport] = set()
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._news = asyncio.Event()

    @property
    def config(self) -> ClusterConfig:
        """How the client reaches the server through the proxy."""
        return replace(self._config, cluster=Cluster(f"http://127.0.0.1:{self._port}"))

    # ------------------------------------------------------------------------ what goes wrong

    def cut(self) -> None:
        """Reset every connection; an answer that has just been sent may be lost as well."""
        just_now = asyncio.get_running_loop().time() - 1.0
        for asked in self.asked:
            asked.answered = asked.answered and asked.ended < just_now
        for transport in self._open:
            transport.abort()

    def stick(self) -> None:
        """Have every connection stay open, and nothing come through it any more."""
        self._stuck |= self._open

    async def stop(self) -> None:
        """Refuse connections, and reset those that there are."""
        if self._runner is not None:
            [site] = self._runner.sites
            await site.stop()
        self.cut()

    async def start(self) -> None:
        """Listen, at the same address as before."""
        assert self._runner is not None
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    def refuse(
        self,
        status: int,
        verb: str = "",
        resource: str = "",
        *,
        times: float = float("inf"),
        holds: Callable[[Asked], bool] = lambda _: True,
        **headers: str,
    ) -> Fault:
        """Have requests answered by a refusal; the server does not see them."""
        spelt = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(verb, resource, times, holds, status, spelt))
        return self.faults[-1]

    def lose(self, verb: str, resource: str = "", *, times: float = 1) -> Fault:
        """Have the server carry requests out, and its answers get lost."""
        self.faults.append(Fault(verb, resource, times, lambda _: True))
        return self.faults[-1]

    def heal(self) -> None:
        """No more faults; what is stuck stays stuck."""
        self.faults.clear()
        self.swallows = False
        self.slow = 0.0
        self.page = 0

    # ------------------------------------------------------------------------ what is counted

    @property
    def busy(self) -> bool:
        """Whether an answer is on its way; of watches only the beginning counts."""
        return bool(self._under_way)

    def count(self, verb: str, resource: str = "") -> int:
        """How many such requests there have been."""
        return sum(one.verb == verb and resource in ("", one.resource) for one in self.asked)

    @property
    def writes(self) -> list[Asked]:
        """The writes that the server has carried out."""
        return [one for one in self.asked if one.verb in WRITES and 200 <= one.status < 300]

    def repeated(self) -> list[Asked]:
        """Writes that the server has carried out and that repeat an earlier one to the letter."""
        seen: Counter[tuple[Any, ...]] = Counter()
        found = []
        for one in self.writes:
            seen[one.write] += 1
            if seen[one.write] > 1:
                found.append(one)
        return found

    def too_early(self) -> list[Asked]:
        """Requests that the server had put off until later."""
        not_before: dict[tuple[str, ...], float] = {}
        found = []
        for one in self.asked:
            if one.at < not_before.get(one.what, 0.0):
                found.append(one)
            not_before[one.what] = one.not_before
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until what has been asked is as a test expects."""
        async with asyncio.timeout(SECONDS):
            while not holds():
                self._news.clear()
                await self._news.wait()

    # ------------------------------------------------------------------------ passing on

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        self._open.add(transport)
        asked = read(request, await request.read())
        self.asked.append(asked)
        self._under_way.add(asked)
        self._news.set()
        try:
            if self.swallows:
                self._stuck.add(transport)
            await self._unless_stuck(transport, asked)
            await self.passes.wait()
            return await self._pass(request, asked, transport)
        except (aiohttp.ClientError, OSError):
            transport.abort()
            return web.Response()  # It reaches no one.
        finally:
            asked.ended = asyncio.get_running_loop().time()
            self._under_way.discard(asked)
            self._news.set()

    async def _pass(
        self, request: web.Request, asked: Asked, transport: asyncio.Transport
    ) -> web.StreamResponse:
        fault = next((one for one in self.faults if one.meets(asked)), None)
        if fault is not None:
            fault.hits.append(asked)
            if fault.status:
                return _refusal(fault)
        assert self._session is not None
        async with self._session.request(
            request.method, self._url(request), data=asked.body, headers=_kept(request.headers)
        ) as answer:
            asked.status = answer.status
            if after := answer.headers.get("Retry-After"):
                asked.not_before = asyncio.get_running_loop().time() + float(after)
            if fault is not None:
                await answer.read()
                asked.answered = False
                transport.abort()
                raise ConnectionResetError
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await response.prepare(request)
            if asked.verb == "watch":
                self._under_way.discard(asked)
            async for piece in answer.content.iter_any():
                size = 256 if self.slow else len(piece)
                for at in range(0, len(piece), size):
                    await self._unless_stuck(transport, asked)
                    await response.write(piece[at : at + size])
                    if self.slow:
                        self._under_way.discard(asked)
                    await asyncio.sleep(self.slow)
            await self._unless_stuck(transport, asked)
            await response.write_eof()
            return response

    async def _unless_stuck(self, transport: asyncio.Transport, asked: Asked) -> None:
        if transport in self._stuck:
            asked.answered = False
            self._under_way.discard(asked)
            await asyncio.Event().wait()

    def _url(self, request: web.Request) -> URL:
        url = URL(self._config.cluster.server + request.raw_path, encoded=True)
        if self.page and "limit" in url.query:
            url = url.update_query(limit=str(self.page))
        return url

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FaultProxy]:
        trusted = authorities(self._config.cluster)
        tls = ssl.create_default_context(cadata=trusted) if trusted else True
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        await self._runner.setup()
        try:
            await self.start()
            yield self
        finally:
            self.cut()
            await self._runner.cleanup()
            await self._session.close()


def _kept(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP}


def _refusal(fault: Fault) -> web.Response:
    reason = {410: "Expired", 429: "TooManyRequests"}.get(fault.status, "")
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason}
    status |= {"code": fault.status, "message": "by the proxy of a test"}
    body = msgspec.json.encode(status)
    headers = {"Content-Type": "application/json", **fault.headers}
    return web.Response(status=fault.status, body=body, headers=headers)
