"""Clusters for tests: each an API server of its own that is there in milliseconds.

What takes long is done once for many: one thread runs all servers, they share certificates, and a
cluster begins with a copy of what another one held (`Clusters.prepare`), such as definitions. Every
cluster has its own objects, address and kubeconfig, is reached over TLS with an administrator's
token, and enforces roles, as a real one does. Nothing is kept on disk but credentials.

The servers run in a thread, so tests may block or run an event loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

from kapilite.manifests import Manifest, documents
from kapilite.serving import Credentials, Folder, Serving, credentials, serving
from kapilite.testclient import Cluster

__all__ = ["Cluster", "Clusters", "Manifest"]

SECONDS = 60.0


class Clusters:
    """The thread that runs the servers, and what they share. Ends with `close`."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Credentials lie in the folder. Raises FolderError and PkiError."""
        self._folder = Folder(os.fspath(folder))
        self._credentials: Credentials = credentials(self._folder)
        self._numbers = itertools.count(1)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kapilite", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread. Clusters must have ended before."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(SECONDS)
        self._loop.close()

    @contextlib.contextmanager
    def start(self, contents: bytes = b"") -> Iterator[Cluster]:
        """A cluster until the block ends, empty or with the `contents` of another."""
        folder = Folder(os.path.join(self._folder.path, f"cluster-{next(self._numbers)}"))
        os.mkdir(folder.path, 0o700)
        started = serving(folder, self._credentials, contents=contents)
        found: Serving = self._run(started.__aenter__())
        try:
            yield Cluster(
                url=found.url,
                kubeconfig=folder.kubeconfig,
                ca_file=self._folder.ca,
                token=self._credentials.token,
                _contents=lambda: self._run(_contents(found)),
            )
        finally:
            self._run(started.__aexit__(None, None, None))

    def prepare(self, manifests: Sequence[Manifest]) -> bytes:
        """What a cluster contains once these manifests are applied, for others to begin with."""
        if not documents(manifests):
            return b""
        with self.start() as cluster:
            cluster.apply(*manifests)
            return cluster.contents()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(SECONDS)


async def _contents(found: Serving) -> bytes:
    return found.server.contents()
