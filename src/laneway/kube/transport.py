"""What the wire says, made useful: dead peers noticed, failures put in words, warnings read."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable

import aiohttp

_KEEP_ALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
)
_WARNING = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')


def keep_alive(response: aiohttp.ClientResponse) -> None:
    """Have the kernel probe an idle connection, so that a vanished peer is noticed in a minute.

    A watch may rightly be silent for long; only the kernel can tell silence from absence.
    """
    connection = response.connection
    transport = connection.transport if connection is not None else None
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is not None:
        for level, option, value in _KEEP_ALIVE:
            sock.setsockopt(level, option, value)


def hang_up(response: aiohttp.ClientResponse) -> None:
    """End the connection of an answer that was not read to its end, at once.

    Over TLS a polite end waits for the other side's. Nothing waits for that here, so the connection
    would outlive its user, and its event loop too. An answer read to its end keeps it.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def failure_text(error: Exception) -> str:
    """One line on what the network did."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            detail = f"its certificate is not trusted ({error.certificate_error})"
        case aiohttp.ClientConnectorError():
            # aiohttp's text shows our objects; asyncio's hides the reason.
            code = error.os_error.errno or 0
            detail = os.strerror(code) if code > 0 else error.os_error.strerror or str(error)
        case aiohttp.ClientPayloadError():
            detail = "the connection was closed before the end"
        case aiohttp.ClientResponseError():
            # Its text shows the URL, which may hold the password of a proxy.
            detail = f"HTTP {error.status} {error.message}"
        case TimeoutError():
            detail = "no answer within the time limit"
        case _:
            detail = str(error) or type(error).__name__
    return " ".join(detail.split())


def warning_texts(headers: Iterable[str]) -> list[str]:
    """The texts of `Warning` headers (RFC 7234, code 299 as Kubernetes sends them)."""
    matches = (_WARNING.match(header) for header in headers)
    return [re.sub(r"\\(.)", r"\1", match[1]) for match in matches if match]
