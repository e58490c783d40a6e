"""gRPC servers on a plugin's socket that are gone when they are closed.

grpclib stops to listen and ends what is under way, but leaves the connections to the other side.
A kubelet would then go on to believe in a plugin that is no more, so here they end too. What the
other side sends is checked before it is decoded: whatever it is, it ends in an answer.
"""

from __future__ import annotations

import asyncio
import os
import socket
import weakref
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from grpclib._typing import IServable
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.protocol import H2Protocol
from grpclib.server import Server, Stream

from laneway.api.kubelet.sockets import listen
from laneway.kubelet.errors import NONSENSE
from laneway.kubelet.sockets import identity

_Received = TypeVar("_Received")
_Sent = TypeVar("_Sent")


@asynccontextmanager
async def serving(folder: str, name: str, handlers: Collection[IServable]) -> AsyncIterator[None]:
    """Serve at this file of the folder, which is taken away again if it is still ours.

    Raises OSError where there can be no socket.
    """
    listener = listen(folder, name)
    path = os.path.join(folder, name)
    ours = identity(path)
    server = _Server(handlers)
    try:
        await _start(server, listener)
        try:
            yield
        finally:
            await server.end(listener)
    finally:
        if ours is not None and identity(path) == ours:
            with suppress(OSError):
                os.unlink(path)


async def _start(server: Server, listener: socket.socket) -> None:
    """Listen; asyncio loses the socket of a start that is cancelled."""
    try:
        await server.start(sock=listener)
    except BaseException:
        asyncio.get_running_loop().remove_reader(listener.fileno())
        listener.close()
        raise


async def received(stream: Stream[_Received, _Sent]) -> _Received:
    """The request; a refusal to the caller where it is none."""
    try:
        request = await stream.recv_message()
    except NONSENSE as error:
        raise GRPCError(Status.INVALID_ARGUMENT, f"not a request: {error}") from error
    if request is None:
        raise GRPCError(Status.INVALID_ARGUMENT, "no request was sent")
    return request


class _Connection(H2Protocol):
    """One that ends at once if it was accepted just before its server ended."""

    def __init__(self, server: _Server, made: H2Protocol) -> None:
        super().__init__(made.handler, made.config, made.h2_config)
        self._server = weakref.ref(server)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        server = self._server()
        if server is None or server.ended:
            self.end()

    def end(self) -> None:
        if hasattr(self, "processor"):  # else it is only being made
            self.processor.close("the plugin has ended")


class _Server(Server):
    def __init__(self, handlers: Collection[IServable]) -> None:
        super().__init__(handlers)
        self.ended = False
        self._connections = weakref.WeakSet[_Connection]()

    def _protocol_factory(self) -> H2Protocol:
        # The one place where grpclib shows a connection to what builds on it.
        connection = _Connection(self, super()._protocol_factory())
        self._connections.add(connection)
        return connection

    async def end(self, listener: socket.socket) -> None:
        self.ended = True
        asyncio.get_running_loop().remove_reader(listener.fileno())
        try:
            # asyncio loses connections that it has accepted and not yet begun when it is closed.
            await asyncio.sleep(0)
        finally:
            self.close()
            for connection in self._connections:
                connection.end()
        await self.wait_closed()
