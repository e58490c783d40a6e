"""A simulated host that agents of any version reach over a socket, as processes of their own.

The host outlives them, as hardware does. The port of hosts is the same in all recorded versions, so
each of its calls goes over the socket by its name; `agent.py` is the other side. A message is its
length and MessagePack. A scan is a thousand calls, so what needs no waiting is answered at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec

from laneway.sim.host import SimulatedHost

LENGTH = struct.Struct("!I")
WAITING = ("write_within", "has", "run")
STREAMS = ("uevents", "kernel_messages")
"""What is subscribed to: each entry is a message, until the agent closes the connection."""


@contextlib.asynccontextmanager
async def reachable(host: SimulatedHost, socket: str) -> AsyncIterator[None]:
    """The host answers on a Unix socket until the block ends."""
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(lambda: _Connection(host), socket)
    try:
        yield
    finally:
        server.close()


class _Connection(asyncio.Protocol):
    """One request after the other."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host
        self._received = bytearray()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < LENGTH.size:
            return
        end = LENGTH.size + LENGTH.unpack_from(self._received)[0]
        if len(self._received) < end:
            return
        name, arguments = msgspec.msgpack.decode(self._received[LENGTH.size : end])
        del self._received[:end]
        if name in STREAMS:
            self._later(self._stream(name))
        elif name in WAITING:
            self._later(self._wait(name, arguments))
        else:
            try:
                self._send(getattr(self._host, name)(*arguments))
            except OSError as error:
                self._fail(error)

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wait(self, name: str, arguments: list[Any]) -> None:
        try:
            self._send(await getattr(self._host, name)(*arguments))
        except OSError as error:
            self._fail(error)

    async def _stream(self, name: str) -> None:
        async with getattr(self._host, name)() as events:
            self._send(None)
            async for event in events:
                self._send(event)

    def _send(self, value: Any) -> None:
        self._message({"value": value})

    def _fail(self, error: OSError) -> None:
        told = [type(error).__name__, error.errno, error.strerror, error.filename]
        self._message({"error": told})

    def _message(self, message: dict[str, Any]) -> None:
        body = msgspec.msgpack.encode(message)
        self._transport.write(LENGTH.pack(len(body)) + body)
