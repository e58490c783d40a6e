"""Our API server in the event loop of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kapilite.server import ApiServer
from laneway.kube.client import Client
from laneway.kube.config import load

DATABASE = "test.db"


def kubeconfig_of(server: ApiServer, folder: Path) -> str:
    """The path of a kubeconfig for a server that runs, written into a folder."""
    path = folder / "kubeconfig"
    path.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: t\n"
        "contexts: [{name: t, context: {cluster: t, user: t}}]\nusers: [{name: t, user: {}}]\n"
        f"clusters: [{{name: t, cluster: {{server: '{server.url}'}}}}]\n"
    )
    return str(path)


def database(folder: Path, fill: Callable[[Client], Awaitable[None]]) -> Path:
    """A database to begin with, filled once for many tests: that takes longer than most of them."""

    async def make() -> None:
        server = ApiServer(str(folder / DATABASE))
        await server.start()
        try:
            async with Client(load(kubeconfig_of(server, folder))) as client:
                await fill(client)
        finally:
            await server.stop()

    # In a thread: whoever asks may be in an event loop.
    with ThreadPoolExecutor() as thread:
        thread.submit(asyncio.run, make()).result()
    return folder / DATABASE
