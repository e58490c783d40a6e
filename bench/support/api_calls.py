"""A client that does as little as it can: it sends what it is given and decodes no answer.

What it costs itself is the same for every server, and small compared with what a server does.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import aiohttp
import msgspec

from laneway.kube.config import load
from laneway.kube.tls import authorities, client_context

_VERSION = re.compile(rb'"resourceVersion":"([0-9]+)"')
_SENT = re.compile(rb'"sent":"([0-9.]+)"')
_SECONDS = 60
"""How long an event may take to reach all watchers."""


class Call(NamedTuple):
    """One request."""

    method: str
    path: str
    body: Any = None
    media_type: str = "application/json"
    accept: str = "application/json"
    coding: str = "identity"


class Caller:
    """A user of one server."""

    def __init__(self, session: aiohttp.ClientSession, server: str, token: str) -> None:
        self._session = session
        self._server = server
        self._authorization = f"Bearer {token}"

    async def send(self, call: Call) -> bytes:
        """The body of the answer; any failure ends the measurement."""
        headers = {
            "Authorization": self._authorization,
            "Content-Type": call.media_type,
            "Accept": call.accept,
            "Accept-Encoding": call.coding,
        }
        data = None if call.body is None else msgspec.json.encode(call.body)
        async with self._session.request(
            call.method, self._server + call.path, data=data, headers=headers
        ) as response:
            answer = await response.read()
            if not response.ok:
                where = f"{call.method} {call.path}"
                raise SystemExit(f"{where} was answered with {response.status}: {answer[:500]!r}")
            return answer

    async def send_all(self, calls: Sequence[Call], clients: int) -> None:
        """With so many requests under way at any time."""
        waiting = iter(calls)

        async def client() -> None:
            for call in waiting:
                await self.send(call)

        await asyncio.gather(*(client() for _ in range(clients)))

    @asynccontextmanager
    async def watching(self, path: str, count: int) -> AsyncIterator[Watchers]:
        """So many watches of a collection, all of them open."""
        watchers = Watchers(count)
        began = await self.version(path)
        opened = asyncio.Semaphore(0)

        async def watch() -> None:
            version, last = began, b""
            while True:
                params = {"watch": "1", "resourceVersion": version}
                headers = {"Authorization": self._authorization}
                url = self._server + path
                with suppress(aiohttp.ClientPayloadError):
                    async with self._session.get(url, params=params, headers=headers) as response:
                        response.raise_for_status()
                        opened.release()
                        rest = b""
                        async for chunk in response.content.iter_any():
                            whole, _, rest = (rest + chunk).rpartition(b"\n")
                            if whole:
                                watchers.take(whole)
                                last = whole
                # kube-apiserver cuts off watchers that are slow; like any client they come back.
                watchers.cut_off += 1
                if found := _VERSION.findall(last):
                    version = found[-1].decode()

        tasks = [asyncio.create_task(watch()) for _ in range(count)]
        for _ in tasks:
            await opened.acquire()
        try:
            yield watchers
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def version(self, path: str) -> str:
        found = msgspec.json.decode(await self.send(Call("GET", f"{path}?limit=1")))
        return str(found["metadata"]["resourceVersion"])


class Watchers:
    """What many watches have received; they only look for the moment of sending."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.latencies: list[float] = []
        self.delivered = 0
        self.cut_off = 0
        self._target = 0
        self._reached = asyncio.Event()

    def take(self, lines: bytes) -> None:
        now = time.perf_counter()
        sent = _SENT.findall(lines)
        self.latencies += [now - float(moment) for moment in sent]
        self.delivered += len(sent)
        if self.delivered >= self._target:
            self._reached.set()

    async def until(self, delivered: int) -> None:
        self._target = delivered
        self._reached.clear()
        if self.delivered < delivered:
            async with asyncio.timeout(_SECONDS):
                await self._reached.wait()


@asynccontextmanager
async def caller(kubeconfig: str) -> AsyncIterator[Caller]:
    config = load(kubeconfig)
    connector = aiohttp.TCPConnector(
        limit=0, ssl=client_context(config.cluster, authorities(config.cluster))
    )
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False
    ) as session:
        yield Caller(session, config.cluster.server, config.user.token)
