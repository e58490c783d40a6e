"""What is made of the wire."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from yarl import URL

from laneway.kube.transport import failure_text, keep_alive, warning_texts


async def test_an_idle_connection_is_probed(script) -> None:
    """Over TLS the options must reach the socket underneath."""
    script.watches.append(script.stream(end="silence"))
    async with aiohttp.ClientSession() as session:
        url = script.config.cluster.server + "/?watch=1"
        async with session.get(url, ssl=False) as response:
            keep_alive(response)

            sock = response.connection.transport.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) <= 60


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "v1 is old"', ["v1 is old"]),
        ('299 kube "say \\"b\\""', ['say "b"']),
        ('214 - "transformed"', []),
        ("299 - unquoted", []),
        ('299 - "open', []),
        ("", []),
    ],
)
def test_warnings(header: str, texts: list[str]) -> None:
    assert warning_texts([header]) == texts


def test_the_password_of_a_proxy_is_not_shown() -> None:
    url = URL("http://user:s3cr3t@proxy:3128")
    info = aiohttp.RequestInfo(url, "CONNECT", {}, url)  # type: ignore[arg-type]

    text = failure_text(aiohttp.ClientHttpProxyError(info, (), status=407, message="Denied"))

    assert text == "HTTP 407 Denied"
