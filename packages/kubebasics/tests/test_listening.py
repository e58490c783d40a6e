"""A port under hostile load: who behaves is served, whatever others connect to it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from kubebasics import certificates
from kubebasics.serving import files, listening

HALF = b"GET / HTTP/1.1\r\nHost: x\r\nX-Half: "
WHOLE = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


async def _hello(_: web.Request) -> web.Response:
    return web.Response(text="hello")


def _app() -> web.Application:
    app = web.Application()
    app.add_routes([web.get("/", _hello)])
    return app


class Door:
    """A port, and how to get through it."""

    def __init__(self, port: int, tls: ssl.SSLContext | None) -> None:
        self.port = port
        self.tls = tls

    async def open(self, sent: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls)
        writer.write(sent)
        return reader, writer

    async def get(self) -> str:
        scheme = "https" if self.tls else "http"
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{scheme}://127.0.0.1:{self.port}/", ssl=self.tls or True) as answer,
        ):
            return await answer.text()


def _tls(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """For a client and for the server that it trusts."""
    now, life = datetime.now(UTC), timedelta(hours=1)
    ca_key, key = certificates.new_key(), certificates.new_key()
    ca = certificates.authority(certificates.subject("ca"), ca_key, now, life)
    leaf = certificates.issued(
        ca,
        ca_key,
        certificates.subject("server"),
        key,
        usage=certificates.SERVER,
        names=["127.0.0.1"],
        now=now,
        life=life,
    )
    chain = folder / "server.pem"
    chain.write_bytes(certificates.key_pem(key) + certificates.pem(leaf))
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(chain)
    return ssl.create_default_context(cadata=certificates.pem(ca).decode()), server


@pytest.fixture(params=["plain", "TLS"])
async def door(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Door]:
    """A port for 32 connections, of which a peer may have eight that are new."""
    client, server = _tls(tmp_path) if request.param == "TLS" else (None, None)
    async with (
        asyncio.timeout(30),
        listening.listening(_app(), "127.0.0.1", 0, tls=server, most=32) as port,
    ):
        yield Door(port, client)


@contextlib.asynccontextmanager
async def held(door: Door, count: int, sent: bytes) -> AsyncIterator[list[asyncio.StreamReader]]:
    """So many connections that are kept open."""
    opened = [await door.open(sent) for _ in range(count)]
    try:
        yield [reader for reader, _ in opened]
    finally:
        for _, writer in opened:
            writer.transport.abort()


async def test_a_peer_with_too_many_half_requests_loses_its_oldest(door: Door) -> None:
    async with held(door, 12, HALF) as readers:
        for reader in readers[:4]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert await door.get() == "hello"


async def test_idle_connections_make_room_for_others(door: Door) -> None:
    async with held(door, 40, WHOLE) as readers:
        with contextlib.suppress(ConnectionError):
            await readers[0].read()
        assert await door.get() == "hello"


async def test_half_a_request_is_not_waited_for(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "REQUEST_SECONDS", 0.05)
    async with held(door, 1, HALF) as (reader,):
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_one_peer_takes_nothing_from_another(door: Door) -> None:
    answer, mine = await door.open(HALF)
    opened = [
        await asyncio.open_connection(
            "127.0.0.1", door.port, ssl=door.tls, local_addr=("127.0.0.2", 0)
        )
        for _ in range(24)
    ]
    mine.write(b"y\r\n\r\n")
    assert (await answer.readline()).startswith(b"HTTP/1.1 200")
    for writer in (mine, *(writer for _, writer in opened)):
        writer.transport.abort()


async def test_a_process_without_files_closes_connections_and_says_so_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()
    accept, scarce = loop.sock_accept, [0]
    monkeypatch.setattr(listening, "_NO_FILE_SECONDS", 0.0)
    monkeypatch.setattr(listening, "_TOLD_SECONDS", 0.0)

    async def accepted(listener: socket.socket) -> tuple[socket.socket, object]:
        if scarce[0]:
            scarce[0] -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return await accept(listener)

    monkeypatch.setattr(loop, "sock_accept", accepted)
    async with listening.listening(_app(), "127.0.0.1", 0) as port, asyncio.timeout(30):
        door = Door(port, None)
        async with held(door, 2, HALF) as readers:
            scarce[0] = 2
            assert await door.get() == "hello"
            for reader in readers:
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            assert await door.get() == "hello"
    (record,) = caplog.records
    assert "because this process has too many open files" in record.message


async def test_who_finds_every_connection_at_work_is_hung_up_on() -> None:
    at_work, done = asyncio.Event(), asyncio.Event()

    async def slow(_: web.Request) -> web.Response:
        at_work.set()
        await done.wait()
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/", slow)])
    async with listening.listening(app, "127.0.0.1", 0, most=1) as port, asyncio.timeout(30):
        door = Door(port, None)
        async with held(door, 1, WHOLE) as (first,):
            await at_work.wait()
            reader, writer = await door.open(b"")
            assert await reader.read() == b""
            writer.close()
            done.set()
            assert (await first.readline()).startswith(b"HTTP/1.1 200")


async def test_what_is_no_http_is_not_logged(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    reader, writer = await door.open(b"\x16\x03\x01 nothing of HTTP\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.0 400")
    writer.close()
    assert not caplog.records


def test_the_soft_limit_of_open_files_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        assert files.raise_limit() == resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 256
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
