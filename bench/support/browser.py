"""A browser of the web interface, as far as a measurement needs one."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

import aiohttp


class Browser(NamedTuple):
    """A user who is signed in."""

    session: aiohttp.ClientSession
    base: str

    async def get(self, path: str) -> tuple[float, bytes]:
        """The seconds that a page takes, and what came, as it was sent."""
        began = time.perf_counter()
        async with self.session.get(self.base + path) as answer:
            body = await answer.read()
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status}")
            return time.perf_counter() - began, body

    @contextlib.asynccontextmanager
    async def stream(self, page: str) -> AsyncIterator[asyncio.Queue[str]]:
        """The events of an open page, without signs of life."""
        events: asyncio.Queue[str] = asyncio.Queue()

        async def read() -> None:
            headers = {"Accept": "text/event-stream"}
            address = f"{self.base}/stream"
            async with self.session.get(address, params={"page": page}, headers=headers) as answer:
                event: list[bytes] = []
                async for line in answer.content:
                    event.append(line)
                    if line == b"\n":
                        if event[0].startswith(b"event:"):
                            events.put_nowait(b"".join(event).decode())
                        event = []

        reading = asyncio.create_task(read())
        try:
            yield events
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def sign_in(base: str, token: str) -> Browser:
    """Sign in at an address; close the session at the end."""
    jar = aiohttp.CookieJar(unsafe=True, treat_as_secure_origin=base)
    session = aiohttp.ClientSession(
        cookie_jar=jar,
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=1 << 22,
        auto_decompress=False,
        headers={"Accept-Encoding": "gzip"},
    )
    async with session.get(f"{base}/sign-in", headers={"Accept-Encoding": "identity"}) as answer:
        found = re.search(r'name="csrf" value="([^"]+)"', await answer.text())
    assert found is not None
    form = {"csrf": found[1], "token": token, "next": "/vgpus"}
    async with session.post(f"{base}/sign-in", data=form, allow_redirects=False) as answer:
        if answer.status != 303:
            raise SystemExit(f"the interface does not accept the token: {answer.status}")
    return Browser(session, base)
