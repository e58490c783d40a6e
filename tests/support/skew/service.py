"""The Service of the webhook: new connections go to the pods that are ready, in turn.

One port stands for its address for as long as the cluster does, as the rules of kube-proxy do.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator


class Service:
    """`pods` are the ports of those that are ready."""

    def __init__(self) -> None:
        self.pods: list[int] = []
        self.port = 0
        self._turn = itertools.count()

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            if not self.pods:
                return
            port = self.pods[next(self._turn) % len(self.pods)]
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", port)
                with contextlib.closing(back):
                    ways = [
                        asyncio.create_task(_forward(reader, back)),
                        asyncio.create_task(_forward(there, writer)),
                    ]
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                    for way in ways:
                        way.cancel()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
