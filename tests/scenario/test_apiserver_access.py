"""The server as `laneway up` runs it: TLS, and only for those it knows."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kapilite.authn import Authenticator, User
from kapilite.credentials import pki
from kapilite.server import ApiServer

NODES = "/api/v1/nodes"


@pytest.fixture
def authority(tmp_path: Path) -> pki.Pki:
    return pki.ensure(str(tmp_path / "pki"))


@pytest.fixture
async def server(tmp_path: Path, authority: pki.Pki) -> Any:
    authenticator = Authenticator({"good-token": User("admin", ("system:masters",))})
    server = ApiServer(
        str(tmp_path / "state.db"), tls=authority.ssl_context(), authenticator=authenticator
    )
    await server.start()
    yield server
    await server.stop()


async def status(
    server: ApiServer, context: ssl.SSLContext, path: str = NODES, token: str = ""
) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(server.url + path, headers=headers) as response,
    ):
        assert (await response.read()) is not None
        return response.status


async def test_who_is_let_in(server: ApiServer, authority: pki.Pki, tmp_path: Path) -> None:
    trusting = ssl.create_default_context(cadata=authority.ca_pem.decode())
    assert await status(server, trusting, token="good-token") == 200
    assert await status(server, trusting, token="bad-token") == 401
    assert await status(server, trusting) == 401
    assert await status(server, trusting, path="/readyz") == 200

    for groups, code in (((), 403), (("system:masters",), 200)):
        certificate, key = authority.client("somebody", groups)
        (tmp_path / "crt").write_bytes(certificate)
        (tmp_path / "key").write_bytes(key)
        knowing = ssl.create_default_context(cadata=authority.ca_pem.decode())
        knowing.load_cert_chain(tmp_path / "crt", tmp_path / "key")
        assert await status(server, knowing) == code
        assert await status(server, knowing, path="/api") == 200

    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await status(server, ssl.create_default_context(), token="good-token")


async def test_a_watch_over_tls_ends_with_the_server(server: ApiServer, authority: pki.Pki) -> None:
    context = ssl.create_default_context(cadata=authority.ca_pem.decode())
    headers = {"Authorization": "Bearer good-token"}
    async with (
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context), headers=headers
        ) as session,
        session.get(f"{server.url}/api/v1/namespaces?watch=1") as response,
    ):
        for _ in range(4):
            assert b'"ADDED"' in await response.content.readline()
        async with asyncio.timeout(10):
            _, rest = await asyncio.gather(server.stop(), response.content.read())
        assert rest == b""
