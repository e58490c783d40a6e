"""A flood from people without credentials: whose device it is decides all the same."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import msgspec
import pytest

from laneway.admission.server import BODY_LIMIT
from support.reviewing import VALIDATION, WebhookInThread, make_vm, review

HALF = b"POST /v1/webhook/validation HTTP/1.1\r\nHost: x\r\nX-Half: "
ANNAS = {"name": "node1-000001000", "deviceName": "nvidia.com/A2"}
BOB = {"username": "bob", "groups": ["system:authenticated"]}


def asked(name: str, *devices: dict[str, str]) -> bytes:
    vm = make_vm(name, *devices)
    return msgspec.json.encode(review("virtualmachines", new=vm, group="kubevirt.io", userInfo=BOB))


LARGE = asked("large", *({"name": f"d{n}", "deviceName": "x"} for n in range(60_000)))
TOO_LARGE = asked("large", *({"name": f"d{n}", "deviceName": "x"} for n in range(150_000)))


@contextlib.asynccontextmanager
async def flooded(url: str, tls: ssl.SSLContext, bodies: list[bytes]) -> AsyncIterator[None]:
    """So many clients that post what they have, over and over, and connections that say half."""
    kind = {"Content-Type": "application/json"}
    ended = asyncio.Event()

    async def post(session: aiohttp.ClientSession, body: bytes) -> None:
        while not ended.is_set():
            with contextlib.suppress(aiohttp.ClientError, OSError):
                async with session.post(url, data=body, headers=kind) as answer:
                    await answer.read()

    host, port = url.split("/")[2].split(":")
    halves = []
    connector = aiohttp.TCPConnector(ssl=tls, limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        for _ in range(40):
            _, writer = await asyncio.open_connection(host, int(port), ssl=tls)
            writer.write(HALF)
            halves.append(writer)
        tasks = [asyncio.create_task(post(session, body)) for body in bodies]
        try:
            yield
        finally:
            ended.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for writer in halves:
                writer.transport.abort()


@pytest.mark.parametrize("body", [LARGE, TOO_LARGE], ids=["as large as may be", "too large"])
async def test_a_claimed_device_is_refused_in_a_flood(
    webhook: WebhookInThread, body: bytes
) -> None:
    assert len(LARGE) < BODY_LIMIT < len(TOO_LARGE)
    tls = ssl.create_default_context(cadata=webhook.pki.ca_pem.decode())
    url = f"https://127.0.0.1:{webhook.port}{VALIDATION}"
    async with asyncio.timeout(60), flooded(url, tls, [body] * 8):
        for _ in range(3):
            refused = await answer(url, tls, asked("mine", ANNAS))
            assert not refused["allowed"]
            assert refused["status"]["details"]["causes"][0]["reason"] == "ClaimedByOther"
            assert (await answer(url, tls, asked("plain")))["allowed"]


async def answer(url: str, tls: ssl.SSLContext, body: bytes) -> Any:
    """As an API server gets it, on a connection of its own, in the time that it has."""
    connector = aiohttp.TCPConnector(ssl=tls)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(url, data=body, headers={"Content-Type": "application/json"}) as found,
    ):
        assert found.status == 200
        return (await found.json())["response"]
