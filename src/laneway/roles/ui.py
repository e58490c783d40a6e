"""The web interface: one process that serves it to any number of users.

It reads what it shows with rights of its own, and writes with those of the user who is signed in.
It is ready once it listens and every cache has been filled.
"""

from __future__ import annotations

import asyncio
import logging
import os

from aiohttp import web

from kubebasics.serving.listening import listening
from laneway.admission.tls import TlsFiles
from laneway.controllers.ledger.source import LedgerSource
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.kube.cluster import ClusterConfig
from laneway.roles.collector import expect_many_objects, spare_the_collector
from laneway.roles.health import place
from laneway.web.api.callers import Callers
from laneway.web.api.routes import RESOURCES, Api
from laneway.web.app import STATIC, Web
from laneway.web.caches import Caches
from laneway.web.history.recorder import History
from laneway.web.history.store import Keeping
from laneway.web.management import Remote
from laneway.web.metrics import UiMetrics
from laneway.web.page import Routes
from laneway.web.pages import ACTIONS, PAGES, keep
from laneway.web.rendering import Rendering, Texts
from laneway.web.server_state import ServerState
from laneway.web.session.guard import SignedIn
from laneway.web.session.sign_in import Settings, SignIn
from laneway.web.standing import standing
from laneway.web.visit import Site

log = logging.getLogger(__name__)

ACCOUNT = "laneway-ui"
"""The service account that it reads as."""
FINISH_SECONDS = 2.0
"""Streams never end by themselves, and a page is drawn in less."""


class UiError(Exception):
    """The address cannot be listened on."""


class Ui:
    """One web interface. Run `run` in a task."""

    def __init__(
        self,
        client: Client,
        config: ClusterConfig,
        metrics: UiMetrics,
        *,
        host: str,
        port: int,
        option: str,
        settings: Settings | None = None,
        management: ClusterConfig | None = None,
        tls: TlsFiles | None = None,
        history: Keeping | None = None,
        tracer: Tracer | None = None,
        alone: bool = False,
    ) -> None:
        """`config`: how users reach the API server, each with a token of their own.

        `port` 0 leaves it to the kernel; an empty host means all addresses, IPv4 and IPv6. `option`
        chooses them on the command line. `management`: Rancher's management cluster, where it is
        not the served one.
        `history`: None keeps none. `tracer`: what takes the spans of users' writes.
        `alone`: nothing else runs in this process, so what it knows once it is ready is kept from
        the garbage collector. Raises ConfigError for an identity provider that is of no use.
        """
        self._alone = alone
        self.ready = asyncio.Event()
        """Set once nothing is waited for any more."""
        self.port = port
        """The one that it listens on, once it does."""
        self._host, self._option, self._tls = host, option, tls
        self._caches = Caches.of(client)
        self._server = ServerState(client)
        self._ledger = LedgerSource(self._caches)
        rendering = Rendering(Texts())
        remote = Remote(management, client, tracer) if management is not None else None
        self._history = (
            History(self._caches, self._server, history) if history is not None else None
        )
        self._site = Site(
            self._caches, self._ledger, rendering, self._server, remote, self._history
        )
        settings = settings or Settings()
        routes = Routes(PAGES, ACTIONS)
        self._sign_in = SignIn(
            config,
            rendering.page,
            settings,
            public=frozenset({STATIC}),
            stateless=RESOURCES,
            file_bytes=routes.file_bytes,
            tracer=tracer,
        )
        self._api = Api(self._site, Callers(config, settings.proxies))
        self._web = Web(self._site, SignedIn(), routes, metrics)
        metrics.counts(lambda: self._web.open_pages, lambda: len(self._sign_in.sessions))
        self._listening = asyncio.Event()

    def waiting_for(self) -> list[str]:
        """What is not there yet: kinds of objects, and `certificate` or `listener`."""
        missing = self._caches.waiting_for()
        if self._listening.is_set():
            return missing
        is_next = self._tls is None or self._tls.loaded.is_set()
        return [*missing, "listener" if is_next else "certificate"]

    def once(self, token: str) -> str:
        """The path of an address that signs in with a token, once."""
        return self._sign_in.once(token)

    async def run(self) -> None:
        """Serve until cancelled. Raises UiError when the address is taken."""
        if self._alone:
            expect_many_objects()
        app = web.Application(client_max_size=self._web.form_bytes)
        self._sign_in.install(app)
        self._api.add_to(app)
        self._web.add_to(app)
        async with asyncio.TaskGroup() as tasks:
            for informer in self._caches.all.values():
                tasks.create_task(informer.run())
            tasks.create_task(self._ledger.run())
            tasks.create_task(self._server.run())
            if self._history is not None:
                tasks.create_task(self._history.run())
            if self._tls is not None:
                tasks.create_task(self._tls.run())
                await self._tls.loaded.wait()
            try:
                async with listening(
                    app,
                    self._host,
                    self.port,
                    tls=self._tls.context if self._tls is not None else None,
                    finish_seconds=FINISH_SECONDS,
                    cancels=True,
                ) as self.port:
                    self._listening.set()
                    for informer in self._caches.all.values():
                        await informer.answered.wait()
                    # Both look at everything once, which takes a moment.
                    standing(self._caches)
                    keep(self._site)
                    if self._alone:
                        spare_the_collector()
                    self.ready.set()
                    log.info("the web interface answers on %s", place(self._host, self.port))
                    await asyncio.Event().wait()
            except OSError as error:
                words = os.strerror(error.errno) if error.errno else str(error)
                raise UiError(
                    f"cannot serve the web interface on {place(self._host, self.port)}: {words}; "
                    f"choose another with {self._option}"
                ) from error
