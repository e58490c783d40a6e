"""An HTTP port that goes on serving clients that behave, whatever others send.

- Who connects has a time in which the first request must have come, TLS handshake included.
- What is closed when there are too many connections is decided in `connections`, before a handshake
  has cost anything. A port that the process has no more files for closes some, too.
- What went wrong with connections is logged once a minute, as a number.

asyncio's own listening knows none of this: it gives every connection to TLS, and logs each one that
it has no file for.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import functools
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kubebasics.serving import files, tls_buffers
from kubebasics.serving.connections import Connection, Connections, peer_of

log = logging.getLogger(__name__)
http_log = logging.getLogger(f"{__name__}.http")
"""Of what goes wrong below an application."""

REQUEST_SECONDS = 10.0
"""From the connection to the end of the head of its first request."""
KEEP_ALIVE_SECONDS = 180.0
"""Longer than the 90 s for which a client in Go keeps a connection that it does not use: one that
the server closes at the moment when the client takes it up again costs a request."""
MOST = 1024
"""Connections of a port that are served at once."""
_TELL_SECONDS = 60.0
_TOLD_SECONDS = 1.0
"""So soon it is logged for the first time, as a user may wonder now."""
_OWN_FILES = 64
"""What a process needs besides connections."""
_BACKLOG = 1024
_LATE_SECONDS = 1.0
_NO_FILE_SECONDS = 0.1
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@contextlib.asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    most: int = MOST,
    finish_seconds: float = 10.0,
    cancels: bool = False,
) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port, which `port` 0 leaves to the kernel.

    An empty host means all addresses, IPv4 and IPv6. `cancels`: who goes ends the work on his
    request. Compressed bodies stay compressed. What is being answered at the end has
    `finish_seconds` for it. Raises OSError where the address cannot be listened on.
    """
    tls_buffers.limit()
    limit = min(most, max(_OWN_FILES, files.raise_limit() - _OWN_FILES) // 2)
    listener = _Listener(tls, Connections(limit, max(limit // 4, 1)))
    app.middlewares.insert(0, listener.middleware)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=http_log,
        auto_decompress=False,
        handler_cancellation=cancels,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        shutdown_timeout=finish_seconds,
    )
    await runner.setup()
    try:
        sockets = await _bound(host, port)
        try:
            async with listener.accepting(sockets, runner.server):
                yield sockets[0].getsockname()[1]
        finally:
            for one in sockets:
                one.close()
    finally:
        await runner.cleanup()


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen, all on one port."""
    if not host and socket.has_dualstack_ipv6():
        places: list[tuple[int, str]] = [(socket.AF_INET6, "")]
    elif not host:
        places = [(socket.AF_INET, "")]
    else:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        places = list(dict.fromkeys((family, str(address[0])) for family, *_, address in found))
    sockets: list[socket.socket] = []
    try:
        for family, address in places:
            one = socket.create_server(
                (address, port),
                family=family,
                backlog=_BACKLOG,
                dualstack_ipv6=not host and family == socket.AF_INET6,
            )
            one.setblocking(False)
            sockets.append(one)
            port = one.getsockname()[1]
    except OSError:
        for one in sockets:
            one.close()
        raise
    return sockets


class _Accepted(Connection):
    """A connection from the moment when it is accepted."""

    __slots__ = ("_task", "_timer", "_transport")

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def expect_request(self, late: Callable[[], None]) -> None:
        """Have `late` called if no request comes in time."""
        loop = asyncio.get_running_loop()
        due = loop.time() + REQUEST_SECONDS

        def expired() -> None:
            if loop.time() > due + _LATE_SECONDS:
                # This process was busy: perhaps the request has come and is not read yet.
                self.expect_request(late)
            else:
                late()

        self._timer = loop.call_at(due, expired)

    def calm(self) -> None:
        """A request has come, or none is to come any more."""
        if self._timer is not None:
            self._timer.cancel()

    def shaking_hands(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def close(self) -> None:
        self.calm()
        if self._transport is not None:
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()


class _Watched(asyncio.Protocol):
    """aiohttp's protocol, and also the listener that wants to know when it ends."""

    def __init__(
        self, inner: web.RequestHandler, made: Callable[[Any], None], lost: Callable[[], None]
    ) -> None:
        self._inner = inner
        self._made = made
        self._lost = lost
        self.data_received = inner.data_received  # type: ignore[method-assign]
        self.eof_received = inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = inner.resume_writing  # type: ignore[method-assign]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made(transport)
        self._inner.connection_made(transport)

    def connection_lost(self, error: BaseException | None) -> None:
        self._lost()
        self._inner.connection_lost(error)


class _Listener:
    """Accepts connections and keeps count of them."""

    def __init__(self, tls: ssl.SSLContext | None, connections: Connections) -> None:
        self._tls = tls
        self._connections = connections
        self._open: dict[Any, _Accepted] = {}
        """By aiohttp's protocol, from the end of the handshake."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._port = 0
        self._closed: Counter[str] = Counter()
        """How many were closed since that was last told, by why."""
        self._telling: asyncio.TimerHandle | None = None

        @web.middleware
        async def middleware(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            return await self._answered(request, handler)

        self.middleware = middleware

    async def _answered(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        connection = self._open.get(request.protocol)
        if connection is None:
            return await handler(request)
        connection.calm()
        self._connections.begin(connection)
        try:
            return await handler(request)
        finally:
            self._connections.end(connection)

    @contextlib.asynccontextmanager
    async def accepting(
        self, sockets: list[socket.socket], factory: web.Server | None
    ) -> AsyncIterator[None]:
        """Accept until the block ends; connections that are made by then go on."""
        assert factory is not None  # noqa: S101 - the runner has been set up
        self._port = sockets[0].getsockname()[1]
        async with asyncio.TaskGroup() as tasks:
            accepting = [tasks.create_task(self._accept(one, factory)) for one in sockets]
            try:
                yield
            finally:
                for task in (*accepting, *self._tasks):
                    task.cancel()
                await asyncio.gather(*self._tasks, return_exceptions=True)
                if self._telling is not None:
                    self._telling.cancel()

    async def _accept(self, listener: socket.socket, factory: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _SCARCE:
                    if (longest := self._connections.longest()) is not None:
                        self._close(longest, "this process has too many open files")
                    await asyncio.sleep(_NO_FILE_SECONDS)
                continue
            connection = _Accepted(peer_of(address[0]))
            task = loop.create_task(self._serve(connection, accepted, factory))
            self._tasks.add(task)
            task.add_done_callback(functools.partial(self._served, accepted))
            connection.shaking_hands(task)
            connection.expect_request(functools.partial(self._late, connection))
            if (replaced := self._connections.add(connection)) is not None:
                self._close(replaced, "there were too many")
            await asyncio.sleep(0)  # What is waiting already would be accepted without a pause.

    async def _serve(
        self, connection: _Accepted, accepted: socket.socket, factory: web.Server
    ) -> None:
        inner = factory()

        def made(transport: asyncio.Transport) -> None:
            connection.made(transport)
            self._open[inner] = connection

        def lost() -> None:
            connection.calm()
            self._open.pop(inner, None)
            self._connections.remove(connection)

        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                lambda: _Watched(inner, made, lost),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else 2 * REQUEST_SECONDS,
            )
        except (OSError, asyncio.CancelledError):
            # No TLS, or the connection was closed meanwhile: there is no reader.
            connection.calm()
            self._connections.remove(connection)

    def _served(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            accepted.close()  # Before it has begun; later on the transport owns the socket.

    def _late(self, connection: _Accepted) -> None:
        self._connections.remove(connection)
        self._close(connection, f"no request came within {REQUEST_SECONDS:.0f} s")

    def _close(self, connection: Connection, why: str) -> None:
        connection.close()
        self._closed[why] += 1
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_TOLD_SECONDS, self._tell)

    def _tell(self) -> None:
        self._telling = None
        if not self._closed:
            return
        told = "; ".join(f"{number} because {why}" for why, number in self._closed.items())
        log.warning("connections closed on port %d: %s", self._port, told)
        self._closed.clear()
        self._telling = asyncio.get_running_loop().call_later(_TELL_SECONDS, self._tell)


def _is_ours(record: logging.LogRecord) -> bool:
    """Whether the server is to blame, rather than a client that does not speak HTTP."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


http_log.addFilter(_is_ours)
