"""What contract tests leave on a real server: their namespaces go after the last test."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress

import pytest

from server_support.kube import LEFT, REAL, SECONDS
from server_support.reaching import given


@pytest.fixture(scope="session", autouse=True)
def sweep() -> Iterator[None]:
    """Delete what the tests left, once no client waits for the server any more."""
    yield
    if REAL and LEFT:
        _delete(LEFT)


def _delete(names: list[str]) -> None:
    server = given()
    for name in names:
        url = f"{server.url}/api/v1/namespaces/{name}"
        request = urllib.request.Request(url, headers=server.headers, method="DELETE")
        with suppress(urllib.error.HTTPError):
            urllib.request.urlopen(request, timeout=SECONDS, context=server.tls).close()
