"""kapilite in the event loop of a test, in memory: a server of the test's own in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from kapilite.server import ApiServer
from laneway.kube.client import Client
from laneway.kube.config import load


def kubeconfig_of(server: ApiServer, folder: Path) -> str:
    """The path of a kubeconfig for a server that runs, written into a folder."""
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\n"
        "contexts: [{name: t, context: {cluster: t, user: t}}]\nusers: [{name: t, user: {}}]\n"
        f"clusters: [{{name: t, cluster: {{server: '{server.url}'}}}}]\n"
    )
    return str(path)


@asynccontextmanager
async def running(folder: Path, contents: bytes = b"") -> AsyncIterator[str]:
    """A server with these contents; the path of its kubeconfig, in the folder."""
    server = ApiServer(contents=contents)
    await server.start()
    try:
        yield kubeconfig_of(server, folder)
    finally:
        await server.stop()


def contents(fill: Callable[[Client], Awaitable[None]]) -> bytes:
    """What a server holds once it was filled, for many tests to begin with."""

    async def make() -> bytes:
        server = ApiServer()
        await server.start()
        try:
            with TemporaryDirectory() as folder:
                async with Client(load(kubeconfig_of(server, Path(folder)))) as client:
                    await fill(client)
            return server.contents()
        finally:
            await server.stop()

    # In a thread: the caller may be in an event loop.
    with ThreadPoolExecutor() as thread:
        return thread.submit(asyncio.run, make()).result()
