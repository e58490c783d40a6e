"""A simulated host that agents of any version reach over a socket, as processes of their own.

The host outlives them, as hardware does. The port of hosts is the same in all recorded versions, so
each of its calls goes over the socket by its name; `agent.py` is the other side. A message is its
length and MessagePack.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import struct
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from laneway.sim.host import SimulatedHost

LENGTH = struct.Struct("!I")
STREAMS = ("uevents", "kernel_messages")
"""What is subscribed to: each entry is a message, until the agent closes the connection."""


@contextlib.asynccontextmanager
async def reachable(host: SimulatedHost, socket: str) -> AsyncIterator[None]:
    """The host answers on a Unix socket until the block ends."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                name, arguments = msgspec.msgpack.decode(await reader.readexactly(length))
                if name in STREAMS:
                    await _stream(host, name, reader, writer)
                    break
                _send(writer, await _answer(host, name, arguments))
                await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(connected, socket)
    try:
        yield
    finally:
        server.close()


async def _answer(host: SimulatedHost, name: str, arguments: list[Any]) -> dict[str, Any]:
    try:
        value = getattr(host, name)(*arguments)
        return {"value": await value if inspect.isawaitable(value) else value}
    except OSError as error:
        return {"error": [type(error).__name__, error.errno, error.strerror, error.filename]}


async def _stream(
    host: SimulatedHost, name: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    async with getattr(host, name)() as events:
        _send(writer, {"value": None})

        async def forward() -> None:
            async for event in events:
                _send(writer, {"value": event})

        forwarding = asyncio.create_task(forward())
        await reader.read()
        forwarding.cancel()
        await asyncio.wait({forwarding})


def _send(writer: asyncio.StreamWriter, message: dict[str, Any]) -> None:
    body = msgspec.msgpack.encode(message)
    writer.write(LENGTH.pack(len(body)) + body)
