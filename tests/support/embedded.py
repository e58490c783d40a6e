"""Our API server in a thread, started as `laneway up` starts it."""

from __future__ import annotations

import asyncio
import contextlib
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from laneway.roles import up
from laneway.roles.datadir import open_data_dir

SECONDS = 60.0


class Embedded:
    """Our server in a thread and event loop of its own, so that it outlives each test's loop."""

    def __init__(self, directory: Path) -> None:
        self._thread = threading.Thread(target=self._run, name="embedded API server", daemon=True)
        self._directory = directory
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._failure: BaseException | None = None
        self.kubeconfig = ""

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as failure:  # noqa: BLE001 - reported to the caller that waits
            self._failure = failure
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        with open_data_dir(str(self._directory)) as data:
            async with up.api_server(data, 0):
                self.kubeconfig = data.kubeconfig
                self._ready.set()
                await self._stop.wait()

    def start(self) -> str:
        """The path of the administrator's kubeconfig, once the server listens."""
        self._thread.start()
        self._ready.wait(SECONDS)
        if self._failure:
            raise self._failure
        return self.kubeconfig

    def end(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)
        if self._failure:
            raise self._failure
        assert not self._thread.is_alive(), f"the server does not end:\n{self._doing()}"

    def _doing(self) -> str:
        """What its tasks wait for."""
        reported = io.StringIO()
        for task in asyncio.all_tasks(self._loop):
            task.print_stack(file=reported)
        return reported.getvalue()


@contextlib.asynccontextmanager
async def embedded(folder: Path) -> AsyncIterator[str]:
    """A server with its data in a folder; the path of the administrator's kubeconfig."""
    server = Embedded(folder)
    try:
        yield await asyncio.to_thread(server.start)
    finally:
        # Meanwhile this loop goes on, in which connections end that the server waits for.
        await asyncio.to_thread(server.end)
