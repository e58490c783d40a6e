"""A port that servers of all addresses can have."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest


@pytest.fixture
def everywhere() -> Iterator[tuple[int, list[str]]]:
    """A port that no other test gets meanwhile, and where this machine is reached, for a URL.

    It is bound and not listened on, so a server that names it may listen: servers set SO_REUSEADDR.
    """
    with contextlib.ExitStack() as stack:
        held = stack.enter_context(_bound(socket.AF_INET, "127.0.0.1", 0))
        port = held.getsockname()[1]
        found = ["127.0.0.1"]
        with contextlib.suppress(OSError):  # A machine without IPv6.
            stack.enter_context(_bound(socket.AF_INET6, "::1", port))
            found.append("[::1]")
        yield port, found


def _bound(family: socket.AddressFamily, host: str, port: int) -> socket.socket:
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except OSError:
        made.close()
        raise
    return made
