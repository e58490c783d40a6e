"""An API server as one thing to start and to stop.

It runs in the caller's event loop, on its own port: a client, also in the same process,
uses HTTP(S) like every other. Only one thing does it change for the whole process: the
buffer of TLS connections (`TLS_BUFFER`), for which asyncio has no setting of their own.
"""

from __future__ import annotations

import contextlib
import errno
from asyncio import sslproto
from typing import TYPE_CHECKING

from aiohttp import web

from kapilite import authorization, builtin
from kapilite.admission.dispatch import Admission
from kapilite.authn import Authenticator, ServiceAccountTokens, keys
from kapilite.authorization import Authorizer, bootstrap
from kapilite.authorization.aggregation import Aggregation
from kapilite.deletion.background import Deletion
from kapilite.endpoints import app
from kapilite.endpoints.access import Access
from kapilite.endpoints.actions import Actions
from kapilite.endpoints.handlers import Services
from kapilite.endpoints.writing import Writing
from kapilite.registry import Registry
from kapilite.storage.database import MEMORY
from kapilite.storage.events import Key
from kapilite.storage.store import HISTORY, Store
from kapilite.storage.upkeep import Upkeep
from kapilite.writes import priorities
from kapilite.writes.objects import Options
from kapilite.writes.removal import Removal
from kapilite.writes.resources import Resources
from kubebasics.serving.listening import listening

if TYPE_CHECKING:
    import ssl

    from kapilite.authn import SigningKey

STOP_SECONDS = 2.0
"""How long requests in progress may take to finish when the server stops; watches end at once.

What is not finished is cancelled, and ended when it has not after as long again.
"""
MOST = 1 << 14
"""Connections at once: each watch has one of its own, and a large cluster thousands of them."""
TLS_BUFFER = 32 * 1024
"""Bytes that a TLS connection reads at once, more than one record can bring."""


class ListenError(Exception):
    """The address cannot be listened on; the text says why and what to do."""


class ApiServer:
    """A Kubernetes API on one store."""

    def __init__(
        self,
        path: str = MEMORY,
        *,
        contents: bytes = b"",
        host: str = "127.0.0.1",
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        authenticator: Authenticator | None = None,
        signing_key: SigningKey | None = None,
        ca_pem: bytes = b"",
        history: int = HISTORY,
    ) -> None:
        """On the store in a file, or in memory, which may begin with the `contents` of another.

        Without an authenticator everybody may do everything.

        The signing key is that of the tokens of service accounts; one that is made for this run is
        lost with it. `ca_pem` is the authority by which clients know this server.
        """
        self.host = host
        self.port = port
        """The port requested; once started, the one it listens on."""
        self._path = path
        self._contents = contents
        self._tls = tls
        self._authenticator = authenticator
        self._signing_key = signing_key or keys.generate()
        self._ca_pem = ca_pem
        self._history = history
        self._store: Store | None = None
        self._background = contextlib.AsyncExitStack()
        self._listening = contextlib.AsyncExitStack()

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Open the store and listen. Raises StoreError or ListenError."""
        self._store = store = Store(self._path, contents=self._contents, history=self._history)
        try:
            application = await self._application(store)
            await self._listen(application)
        except BaseException:
            await self.stop()
            raise

    def contents(self) -> bytes:
        """All objects and their history, for another server to begin with. It must run."""
        if self._store is None:
            raise RuntimeError("the server does not run")
        return self._store.contents()

    async def stop(self) -> None:
        """End watches, let requests finish, close the store."""
        if self._store is not None:
            self._store.fanout.close()
        await self._listening.aclose()
        await self._background.aclose()
        if self._store is not None:
            self._store.close()
            self._store = None

    async def _application(self, store: Store) -> web.Application:
        """All parts, put together and at work."""
        registry = Registry(store)
        deletion = Deletion(store, registry)
        admission = Admission(store, registry)
        upkeep = Upkeep(store)
        for stop in (admission.stop, deletion.stop, upkeep.stop):
            self._background.push_async_callback(stop)
        bootstrap.ensure(store)
        priorities.ensure(store)
        Aggregation(store)
        authorizer = Authorizer(store)
        tokens = ServiceAccountTokens(store, self._signing_key)
        authenticator = self._authenticator or Authenticator({})
        authenticator.attach(tokens)
        access = Access(store, authenticator, authorizer, tokens, self._ca_pem)
        resources = Resources(store, registry, deletion, admission, access)
        removal = Removal(deletion, admission)
        services = Services(
            store=store,
            registry=registry,
            resources=resources,
            writing=Writing(resources),
            removal=removal,
            actions=Actions(store, registry, resources, removal, access),
            access=access,
        )
        await _seed(services)
        deletion.start()
        upkeep.start()
        gate = authorization.middleware(authenticator, authorizer) if self._authenticator else None
        return app.make(services, self._signing_key, gate)

    async def _listen(self, application: web.Application) -> None:
        # asyncio keeps a buffer of this size for each connection, 256 KiB if not told otherwise:
        # hundreds of watches would take more memory for that alone than everything else does.
        sslproto.SSLProtocol.max_size = TLS_BUFFER
        try:
            serving = listening(
                application,
                self.host,
                self.port,
                tls=self._tls,
                most=MOST,
                finish_seconds=STOP_SECONDS,
                cancels=True,  # A client that goes ends its watch.
            )
            self.port = await self._listening.enter_async_context(serving)
        except OSError as error:
            where = f"{self.host}:{self.port}"
            if error.errno == errno.EADDRINUSE:
                advice = "stop what uses it, or choose another port with --port"
                raise ListenError(f"{where} is in use by another program: {advice}") from error
            raise ListenError(f"cannot listen on {where}: {error.strerror or error}") from error


async def _seed(services: Services) -> None:
    """The namespaces that every cluster has."""
    kind = services.registry.of_resource(builtin.NAMESPACES)
    assert kind is not None  # noqa: S101 - built in
    for name in builtin.SYSTEM_NAMESPACES:
        if services.store.get(Key(builtin.NAMESPACES, "", name)) is None:
            await services.resources.create(kind, "", {"metadata": {"name": name}}, Options())
