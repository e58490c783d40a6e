"""A server for what the chart makes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.embedded import Embedded

REAL = bool(os.environ.get("LANEWAY_REALAPI"))


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Iterator[str]:
    """The administrator's, of our server, or of the real one of the realapi tier."""
    if REAL:
        yield os.environ["KUBECONFIG"]
        return
    server = Embedded(tmp_path / "server")
    try:
        yield server.start()
    finally:
        server.end()
