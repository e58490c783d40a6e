"""The webhook: answers the API server's questions about what is to be written. It never writes.

Any number of them may run, all alike. One is ready once it knows the cluster and has a certificate;
it stops being ready before it stops listening, so that the API server has gone elsewhere by then.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from typing import Protocol

from prometheus_client import CollectorRegistry

from kubebasics.serving.listening import listening
from laneway.admission.access import AccessReviews
from laneway.admission.fair_queue import FairQueue
from laneway.admission.judging import Judging, Kinds
from laneway.admission.kinds import KINDS
from laneway.admission.metrics import AdmissionMetrics
from laneway.admission.server import application
from laneway.admission.tls import TlsFiles
from laneway.admission.world import World
from laneway.core.tracing import Tracer
from laneway.kube.client import Client
from laneway.roles.collector import spare_the_collector
from laneway.roles.health import place

log = logging.getLogger(__name__)

AGENT = "laneway-agent"
MANAGER = "laneway-manager"
"""Service accounts of Laneway's own, which keep objects in step with hardware."""

DRAIN_SECONDS = 8.0
"""How long a replica of several goes on answering when it is to stop: until everybody knows."""
FINISH_SECONDS = 10.0
"""To answer what has been asked by then; the API server would not wait longer."""
LOOK_SECONDS = 0.05


class ListenError(Exception):
    """The address cannot be listened on."""


class Caches(Protocol):
    """What keeps the world (`admission.caches.AdmissionCaches`)."""

    @property
    def world(self) -> World: ...

    def waiting_for(self) -> list[str]: ...

    async def run(self) -> None: ...


def trusted(namespace: str) -> frozenset[str]:
    """The usernames of Laneway's own agent and manager, installed in a namespace."""
    return frozenset(f"system:serviceaccount:{namespace}:{name}" for name in (AGENT, MANAGER))


class Webhook:
    """One webhook. Run `run` in a task."""

    def __init__(
        self,
        client: Client,
        registry: CollectorRegistry,
        caches: Caches,
        *,
        cert_file: str,
        key_file: str,
        host: str,
        port: int,
        client_ca: str = "",
        drain_seconds: float = 0.0,
        alone: bool = False,
        kinds: Kinds = KINDS,
        tracer: Tracer | None = None,
    ) -> None:
        """`port` 0 leaves it to the kernel; an empty host means all addresses, IPv4 and IPv6.

        The files are followed: they may change, or come late. With `client_ca`, only clients are
        answered that have a certificate of these authorities (`TlsFiles`).
        Rights are asked of `client` (SubjectAccessReview), and nothing else. For `drain_seconds`
        after it was cancelled, a webhook is not ready but answers. `alone`: nothing else runs in
        this process, so what it knows once it is ready is kept from the garbage collector. `kinds`:
        what it has rules for. `tracer`: what takes the spans of reviews.
        """
        self.ready = asyncio.Event()
        """Set once it listens and nothing is waited for any more."""
        self.port = port
        """The one that it listens on, once it is ready."""
        metrics = AdmissionMetrics(registry)
        self._caches = caches
        self._host = host
        self._drain_seconds = drain_seconds
        self._alone = alone
        self._listening = False
        self._stopping = asyncio.Event()
        self._tls = TlsFiles(cert_file, key_file, metrics, client_ca=client_ca)
        fair_queue = FairQueue()
        judging = Judging(
            kinds, caches.world, AccessReviews(client, metrics), metrics, fair_queue, tracer=tracer
        )
        self._app = application(judging, metrics, caches.waiting_for, self._stopping, fair_queue)

    def waiting_for(self) -> list[str]:
        """What is not there yet: names of caches, `certificate`, and `stopping` at the end."""
        missing = self._caches.waiting_for()
        if not self._listening:
            missing = [*missing, "listener" if self._tls.loaded.is_set() else "certificate"]
        return [*missing, "stopping"] if self._stopping.is_set() else missing

    async def run(self) -> None:
        """Serve until cancelled; what is being answered by then is still answered.

        Raises ListenError when the address is taken.
        """
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._caches.run())
            tasks.create_task(self._tls.run())
            await self._tls.loaded.wait()
            async with self._served():
                while self.waiting_for():  # noqa: ASYNC110 - caches tell what they lack, not when
                    await asyncio.sleep(LOOK_SECONDS)
                if self._alone:
                    spare_the_collector()
                self.ready.set()
                log.info("the webhook knows its cluster, and answers on port %d", self.port)
                await asyncio.Event().wait()

    @contextlib.asynccontextmanager
    async def _served(self) -> AsyncIterator[None]:
        """Listen for the block. Caches and certificates are kept until it has ended."""
        async with contextlib.AsyncExitStack() as stack:
            serving = listening(
                self._app,
                self._host,
                self.port,
                tls=self._tls.context,
                finish_seconds=FINISH_SECONDS,
                cancels=True,  # No client waits for the answer any more.
            )
            try:
                self.port = await stack.enter_async_context(serving)
            except OSError as error:
                words = os.strerror(error.errno) if error.errno else str(error)
                raise ListenError(
                    f"cannot serve reviews on {place(self._host, self.port)}: {words}; choose "
                    "another address"
                ) from error
            self._listening = True
            try:
                yield
            finally:
                self._stopping.set()
                await asyncio.sleep(self._drain_seconds)
