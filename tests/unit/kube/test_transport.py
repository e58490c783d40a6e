"""What is made of the wire."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import ssl
import threading
import tracemalloc
from asyncio import sslproto

import aiohttp
import pytest
from yarl import URL

from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig, Pem, User
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


def test_a_watch_that_is_left_ends_with_its_event_loop(
    authority, server_context: ssl.SSLContext, things
) -> None:
    """Even when the server does not answer the end of TLS, as a busy one does not in time."""

    def serve(listener: socket.socket, over: threading.Event) -> None:
        connection, _ = listener.accept()
        with server_context.wrap_socket(connection, server_side=True) as stream:
            stream.recv(65536)
            event = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "a"}}}).encode()
            stream.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            stream.sendall(b"%x\r\n%s\n\r\n" % (len(event) + 1, event))
            over.wait(60)

    async def first_event(port: int) -> str:
        cluster = Cluster(f"https://127.0.0.1:{port}", Pem(data=authority.certificate))
        async with (
            Client(ClusterConfig(cluster, User())) as client,
            contextlib.aclosing(client.watch(things, resource_version="1")) as events,
        ):
            return (await anext(events)).type

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(60)
        server = threading.Thread(target=serve, args=(listener, over))
        server.start()
        try:
            assert asyncio.run(first_event(listener.getsockname()[1])) == "ADDED"
        finally:
            over.set()
            server.join()
    gc.collect()  # what is left open warns when it is collected, and a warning is a failure


async def test_a_watch_that_is_silent_holds_little_memory(secure, things) -> None:
    """An agent has fourteen, and asyncio would give each a quarter of a MiB to read into."""
    began = asyncio.Event()
    secure.watches.append(secure.stream(end="silence", sent=began))
    async with secure.client() as client:
        tracemalloc.start()
        try:
            watch = asyncio.ensure_future(anext(client.watch(things, resource_version="1")))
            await began.wait()
            held = tracemalloc.take_snapshot().filter_traces(
                [tracemalloc.Filter(True, sslproto.__file__)]
            )
        finally:
            tracemalloc.stop()
        watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watch

    # The client's end and the server's, which is in this process as well.
    assert 0 < sum(one.size for one in held.statistics("filename")) < 150_000
