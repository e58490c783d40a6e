"""Health, readiness and metrics of a process, over plain HTTP.

`/healthz` answers while the event loop turns, `/readyz` only once every part is ready and names
those that are not, `/metrics` is for Prometheus. Nothing here tells a secret or takes an order.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

from kubebasics.serving.listening import listening

MOST = 256
"""Connections at once."""

NotReady = Callable[[], Iterable[str]]
"""Names of the parts that are not ready."""


class _Collected(CollectorRegistry):
    """Metrics as they were at one moment."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self._families


class HealthError(Exception):
    """The address cannot be listened on."""


@contextlib.asynccontextmanager
async def health_server(
    host: str, port: int, registry: CollectorRegistry, not_ready: NotReady
) -> AsyncIterator[int]:
    """Serve until the block ends; gives the port, which `port` 0 leaves to the kernel.

    An empty host means all addresses of the machine, IPv4 and IPv6.
    Raises HealthError when the address is taken.
    """

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        if waiting := sorted(not_ready()):
            return web.Response(status=503, text=f"not ready: {', '.join(waiting)}\n")
        return web.Response(text="ok\n")

    async def metrics(_request: web.Request) -> web.Response:
        # What is counted belongs to the event loop; a large cluster takes long to be put in words.
        body = await asyncio.to_thread(generate_latest, _Collected(registry.collect()))
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes(
        [
            web.get("/healthz", healthz),
            web.get("/readyz", readyz),
            web.get("/metrics", metrics),
        ]
    )
    async with contextlib.AsyncExitStack() as stack:
        try:
            served = await stack.enter_async_context(listening(app, host, port, most=MOST))
        except OSError as error:
            raise HealthError(
                f"cannot serve health and metrics on {place(host, port)}: {_words(error)}; "
                "choose another address"
            ) from error
        yield served


def place(host: str, port: int) -> str:
    """An address in words."""
    return f"{host} port {port}" if host else f"port {port}"


def _words(error: OSError) -> str:
    """What went wrong; asyncio repeats the address in its text, a resolver's number is no errno."""
    if error.errno is None or isinstance(error, socket.gaierror):
        return error.strerror or str(error)
    return os.strerror(error.errno)
