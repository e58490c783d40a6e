"""gRPC over Unix sockets whose connections end with the side that a test ends.

Folders may have paths of any length here; that kubelets have the path itself to keep short is
checked where a plugin registers.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import ExitStack
from weakref import WeakSet

from grpclib.client import Channel
from grpclib.protocol import H2Protocol
from grpclib.server import Server

from laneway.api.kubelet.deviceplugin_grpc import RegistrationBase
from laneway.api.kubelet.podresources_grpc import PodResourcesListerBase
from laneway.api.kubelet.sockets import listen, within

_TURNS = 4
"""Of the event loop, until a connection that was just accepted can be ended, and has ended."""


class Service(Server):
    """A gRPC server whose connections end with it, as those of a process do."""

    def __init__(self, handler: RegistrationBase | PodResourcesListerBase) -> None:
        super().__init__([handler])
        self._connections: WeakSet[H2Protocol] = WeakSet()
        self._listener: socket.socket | None = None

    def _protocol_factory(self) -> H2Protocol:
        connection = super()._protocol_factory()
        self._connections.add(connection)
        return connection

    async def listen(self, folder: str, name: str) -> None:
        """Take the place of whatever has the name."""
        listener = listen(folder, name)
        try:
            await self.start(sock=listener)
        except BaseException:
            listener.close()
            raise
        self._listener = listener

    def disconnect(self) -> None:
        """End all connections."""
        for connection in self._connections:
            if hasattr(connection, "processor"):  # else it is being made
                connection.processor.close("ended by the server")

    async def stop(self) -> None:
        if self._listener is not None:
            # A connection that was accepted and not taken on yet would be dropped, and left open.
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener = None
            await asyncio.sleep(0)
        self.close()
        for _ in range(_TURNS):
            self.disconnect()
            await asyncio.sleep(0)
        await self.wait_closed()


class Dialled(Channel):
    """A connection to a socket; what the other side is called is the caller's to say."""

    def __init__(self, folder: str, name: str, authority: str) -> None:
        self._place = ExitStack()
        self._said = authority
        super().__init__(path=self._place.enter_context(within(folder, name)))

    def _get_authority(self, *_address: object) -> str:
        return self._said

    def close(self) -> None:
        super().close()
        self._place.close()
