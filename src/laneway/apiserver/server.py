"""The embedded API server as one thing to start and to stop.

It runs in the caller's event loop, on its own port: whoever uses it, also in the same process,
does so over HTTP(S) like everybody else.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from aiohttp import web

from laneway.apiserver import app, builtin
from laneway.apiserver.deletion import Deletion
from laneway.apiserver.events import Key
from laneway.apiserver.handlers import Handlers
from laneway.apiserver.objects import Options
from laneway.apiserver.registry import Registry
from laneway.apiserver.resources import Resources
from laneway.apiserver.store import HISTORY, Store

if TYPE_CHECKING:
    import ssl

    from laneway.apiserver.authn import Authenticator

STOP_SECONDS = 2.0
"""How long requests in progress may take to finish when the server stops; watches end at once."""


class ListenError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class ApiServer:
    """A Kubernetes API on one store."""

    def __init__(
        self,
        path: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        authenticator: Authenticator | None = None,
        history: int = HISTORY,
    ) -> None:
        self.host = host
        self.port = port
        """The port asked for; once started, the one it listens on."""
        self._path = path
        self._tls = tls
        self._authenticator = authenticator
        self._history = history
        self._store: Store | None = None
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Open the store and listen. Raises StoreError or ListenError."""
        self._store = store = Store(self._path, history=self._history)
        try:
            registry = Registry(store)
            deletion = Deletion(store, registry)
            resources = Resources(store, registry, deletion)
            _seed(registry, resources, store)
            handlers = Handlers(store, registry, resources, deletion)
            application = app.make(store, registry, handlers, self._authenticator)
            # A client that goes ends its watch.
            self._runner = web.AppRunner(
                application,
                access_log=None,
                handler_cancellation=True,
                shutdown_timeout=STOP_SECONDS,
            )
            await self._runner.setup()
            await self._listen(self._runner)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End watches, let requests finish, close the store."""
        if self._store is not None:
            self._store.fanout.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._store is not None:
            self._store.close()
            self._store = None

    async def _listen(self, runner: web.AppRunner) -> None:
        site = web.TCPSite(runner, self.host, self.port, ssl_context=self._tls, reuse_address=True)
        try:
            await site.start()
        except OSError as error:
            where = f"{self.host}:{self.port}"
            if error.errno == errno.EADDRINUSE:
                advice = "stop what uses it, or choose another port"
                raise ListenError(f"{where} is in use by another program: {advice}") from error
            raise ListenError(f"cannot listen on {where}: {error.strerror or error}") from error
        self.port = runner.addresses[0][1]


def _seed(registry: Registry, resources: Resources, store: Store) -> None:
    """The namespaces that every cluster has."""
    kind = registry.of_resource(builtin.NAMESPACES)
    assert kind is not None  # noqa: S101 - built in
    with store.transaction():
        for name in builtin.SYSTEM_NAMESPACES:
            if store.get(Key(builtin.NAMESPACES, "", name)) is None:
                resources.create(kind, "", {"metadata": {"name": name}}, Options())
