"""A server that is to stop does so, whatever its clients and its webhooks do, or do not."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp

from kapilite.credentials import pki
from kapilite.server import ApiServer

SECONDS = 30.0
"""Far more than it takes, and far less than what waits here would."""
THINGS = "/api/v1/namespaces/default/configmaps"
LARGE = "x" * 500_000


async def test_it_stops_while_the_other_side_is_silent(tmp_path: Path) -> None:
    authority = pki.ensure(str(tmp_path / "pki"))
    trusting = ssl.create_default_context(cadata=authority.ca_pem.decode())
    server = ApiServer(str(tmp_path / "state.db"), tls=authority.ssl_context())
    await server.start()
    stuck: list[socket.socket] = []
    tasks: list[asyncio.Task[Any]] = []
    connector = aiohttp.TCPConnector(ssl=trusting, limit=0)
    # It takes connections, and never answers.
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with aiohttp.ClientSession(server.url, connector=connector) as session:
            for number in range(20):
                body = {"metadata": {"name": f"t{number}"}, "data": {"all": LARGE}}
                await _made(session, THINGS, body)
            for _ in range(3):
                # A handshake that never comes; half a request; a watch that is not read.
                stuck.append(_connected(server))
                stuck += [
                    await asyncio.to_thread(_spoken, server, trusting, request)
                    for request in (
                        f"POST {THINGS} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{{",
                        f"GET {THINGS}?watch=true HTTP/1.1\r\nHost: x\r\n\r\n",
                    )
                ]
            await _made(session, WEBHOOKS, _webhook(silent.getsockname()[1], authority.ca_pem))
            # Writes wait for the webhook.
            body = {"metadata": {"name": "new"}}
            tasks += [asyncio.create_task(_made(session, THINGS, body)) for _ in range(3)]
            tasks += [asyncio.create_task(_deleted(session, "t0"))]
            silent.settimeout(SECONDS)
            stuck += [(await asyncio.to_thread(silent.accept))[0] for _ in tasks]

            async with asyncio.timeout(SECONDS):
                await server.stop()

            answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, aiohttp.ClientError) for one in answers), answers
    for one in stuck:
        one.close()


WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


def _webhook(port: int, ca_pem: bytes) -> dict[str, Any]:
    where = {"url": f"https://localhost:{port}/", "caBundle": base64.b64encode(ca_pem).decode()}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    one = {
        "name": "silent.laneway.example",
        "clientConfig": where,
        "rules": [{**rule, "operations": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    }
    return {"metadata": {"name": "silent"}, "webhooks": [one]}


async def _made(session: aiohttp.ClientSession, path: str, body: dict[str, Any]) -> Any:
    async with session.post(path, json=body) as response:
        return await response.json()


async def _deleted(session: aiohttp.ClientSession, name: str) -> Any:
    async with session.delete(f"{THINGS}/{name}") as response:
        return await response.json()


def _connected(server: ApiServer) -> socket.socket:
    return socket.create_connection((server.host, server.port))


def _spoken(server: ApiServer, trusting: ssl.SSLContext, request: str) -> socket.socket:
    """A connection on which something was requested, and nothing is read."""
    found = trusting.wrap_socket(_connected(server), server_hostname="localhost")
    found.sendall(request.encode())
    return found
