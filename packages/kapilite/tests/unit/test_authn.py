"""Over a real TLS connection: who is let in, as whom, and how the others are refused."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, TCPConnector, web
from yarl import URL

from kapilite.authn import USER, Authenticator, User
from kapilite.authorization import Authorizer, bootstrap, middleware
from kapilite.credentials import pki
from kapilite.errors import ApiError
from kapilite.storage.store import Store

ADMIN = User("admin", ("system:masters",))
TOKENS = {"s3cret-token": ADMIN, "other-token": User("agent", ("nodes",)), "": User("nobody")}


class Server:
    """A server that answers with the user it sees."""

    def __init__(self, authority: pki.Pki, folder: Path, port: int) -> None:
        self._authority, self._folder = authority, folder
        self._url = f"https://localhost:{port}"

    async def ask(
        self, path: str = "/api", authorization: str | None = None, user: User | None = None
    ) -> tuple[int, Any]:
        context = ssl.create_default_context(cadata=self._authority.ca_pem.decode())
        if user:
            pair = self._folder / "client.pem"
            pair.write_bytes(b"".join(self._authority.client(user.name, user.groups)))
            context.load_cert_chain(pair)
        headers = {"Authorization": authorization} if authorization is not None else {}
        async with (
            ClientSession(connector=TCPConnector(ssl=context)) as session,
            session.get(URL(self._url + path, encoded=True), headers=headers) as response,
        ):
            return response.status, await response.json()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    async def whoami(request: web.Request) -> web.Response:
        user = request[USER]
        return web.json_response([user.name, list(user.groups)])

    @web.middleware
    async def answer_errors(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            return await handler(request)
        except ApiError as error:
            return web.json_response(error.status(), status=error.code)

    store = Store(str(tmp_path / "db"))
    bootstrap.ensure(store)
    gate = middleware(Authenticator(TOKENS), Authorizer(store))
    app = web.Application(middlewares=[answer_errors, gate])
    app.router.add_get("/{path:.*}", whoami)
    runner = web.AppRunner(app)
    await runner.setup()
    authority = pki.ensure(str(tmp_path / "pki"))
    site = web.TCPSite(runner, "localhost", 0, ssl_context=authority.ssl_context())
    await site.start()
    yield Server(authority, tmp_path, runner.addresses[0][1])
    await runner.cleanup()
    store.close()


@pytest.mark.parametrize("authorization", ["Bearer s3cret-token", "bearer  s3cret-token "])
async def test_a_token_tells_the_user(server: Server, authorization: str) -> None:
    assert await server.ask(authorization=authorization) == (
        200,
        ["admin", ["system:masters", "system:authenticated"]],
    )


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Bearer wrong",
        "Bearer s3cret-token2",
        "Basic s3cret-token",
        "s3cret-token",
        "Bearer \udcff",
    ],
)
async def test_everyone_else_gets_a_status(server: Server, authorization: str | None) -> None:
    if authorization and not authorization.isprintable():
        authorization = authorization.encode(errors="surrogateescape").decode("latin-1")
    code, body = await server.ask(authorization=authorization)
    assert code == 401
    assert (body["kind"], body["reason"], body["code"]) == ("Status", "Unauthorized", 401)


async def test_a_certificate_tells_the_user(server: Server) -> None:
    user = User("alice", ("dev", "ops"))
    assert await server.ask(user=user) == (200, ["alice", ["dev", "ops", "system:authenticated"]])


async def test_a_certificate_counts_before_a_token(server: Server) -> None:
    code, body = await server.ask(user=User("alice"), authorization="Bearer s3cret-token")
    assert (code, body) == (200, ["alice", ["system:authenticated"]])


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz?verbose", "/version"])
async def test_probes_need_no_credential(server: Server, path: str) -> None:
    assert await server.ask(path) == (200, ["system:anonymous", ["system:unauthenticated"]])


@pytest.mark.parametrize("path", ["/", "/apis", "/version/../api", "/readyz/../api", "/versions"])
async def test_nothing_else_is_open(server: Server, path: str) -> None:
    code, _ = await server.ask(path)
    assert code == 401


def test_tokens_are_not_kept_in_clear() -> None:
    assert "s3cret" not in repr(vars(Authenticator(TOKENS)))
