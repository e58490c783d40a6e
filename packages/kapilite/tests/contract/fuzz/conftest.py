"""An API server as `laneway up` starts it, in a thread of its own, that notes what it suffers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from laneway.kube.config import load
from support.embedded import Embedded

SECONDS = 60.0


class Server:
    """Where it is, who may do everything on it, and what it logged as its own failures."""

    def __init__(self, directory: Path) -> None:
        self._embedded = Embedded(directory)
        self.url = ""
        self.session = requests.Session()
        self.failures: list[str] = []

    def start(self) -> None:
        config = load(self._embedded.start())
        self.url = config.cluster.server
        data = Path(self._embedded.kubeconfig).parent
        self.session.trust_env = False  # whose authorities would come before ours
        self.session.headers["Authorization"] = f"Bearer {config.user.token}"
        self.session.verify = str(data / "pki" / "ca.crt")

    def end(self) -> None:
        self.session.close()
        self._embedded.end()

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
