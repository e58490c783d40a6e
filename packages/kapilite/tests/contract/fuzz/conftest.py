"""An API server in a thread of its own, that notes what it suffers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from kapilite.testing import Cluster, Clusters

SECONDS = 60.0


class Server:
    """Where it is, who may do everything on it, and what it logged as its own failures."""

    def __init__(self, cluster: Cluster) -> None:
        self.url = cluster.url
        self.failures: list[str] = []
        self.session = requests.Session()
        self.session.trust_env = False  # whose authorities would come before ours
        self.session.headers.update(cluster.headers)
        self.session.verify = cluster.ca_file

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
def server(kapilite_clusters: Clusters) -> Iterator[Server]:
    """One server for all cases: whatever one of them breaks, the others notice."""
    with kapilite_clusters.start() as cluster:
        found = Server(cluster)
        handler = _Failures(found)
        logging.getLogger().addHandler(handler)
        try:
            yield found
        finally:
            logging.getLogger().removeHandler(handler)
            found.session.close()
