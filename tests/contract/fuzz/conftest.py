"""An API server as `laneway up` starts it, in a thread of its own, that notes what it suffers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from laneway.roles import up
from laneway.roles.datadir import DataDir, open_data_dir

SECONDS = 60.0


class Server:
    """Where it is, who may do everything on it, and what it logged as its own failures."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="API server", daemon=True)
        self.url = ""
        self.session = requests.Session()
        self.failures: list[str] = []

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            self._ready.set()

    async def _serve(self) -> None:
        with open_data_dir(str(self._directory)) as data:
            async with up.api_server(data, 0) as self.url:
                self._admit(data)
                self._ready.set()
                await self._stop.wait()

    def _admit(self, data: DataDir) -> None:
        token = Path(data.token).read_text().strip()
        self.session.trust_env = False  # whose authorities would come before ours
        self.session.headers["Authorization"] = f"Bearer {token}"
        self.session.verify = f"{data.pki}/ca.crt"

    def start(self) -> None:
        self._thread.start()
        self._ready.wait(SECONDS)
        assert self.url, "the API server did not start"

    def end(self) -> None:
        self.session.close()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(SECONDS)

    def call(self, method: str, path: str, **how: Any) -> requests.Response:
        """A request; one that is not answered in a minute is a hang."""
        return self.session.request(method, f"{self.url}{path}", timeout=SECONDS, **how)

    def objects(self, path: str) -> dict[str, str]:
        """The names of a collection's objects with their resourceVersions."""
        items = self.call("GET", path).json()["items"]
        return {o["metadata"]["name"]: o["metadata"]["resourceVersion"] for o in items}


class _Failures(logging.Handler):
    def __init__(self, server: Server) -> None:
        super().__init__(logging.ERROR)
        self._server = server

    def emit(self, record: logging.LogRecord) -> None:
        self._server.failures.append(self.format(record))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all cases: whatever one of them breaks, the others notice."""
    found = Server(tmp_path_factory.mktemp("fuzzed"))
    handler = _Failures(found)
    logging.getLogger().addHandler(handler)
    found.start()
    try:
        yield found
    finally:
        found.end()
        logging.getLogger().removeHandler(handler)
