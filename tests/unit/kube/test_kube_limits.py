"""A server that may mean harm: what it answers is read up to a limit, and ends in words."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging

import pytest

from laneway.kube.errors import ApiError, UndecodableError

LIMIT = 100_000


async def endless(writer: asyncio.StreamWriter) -> None:
    """A good answer that never ends."""
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"%x\r\n%s\r\n" % (60_000, b" " * 60_000))
        await writer.drain()
        await asyncio.sleep(0)  # drain returns at once where the socket takes all


async def endless_refusal(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"%x\r\n%s\r\n" % (60_000, b"x" * 60_000))
        await writer.drain()
        await asyncio.sleep(0)  # drain returns at once where the socket takes all


async def test_an_answer_without_end_is_given_up_at_the_limit(script, things) -> None:
    script.replies += [endless, endless, script.body(200, script.thing("a", 1, size=3))]

    async with script.client(answer_bytes=LIMIT) as client:
        with pytest.raises(UndecodableError, match=f"things/a has more than the {LIMIT} bytes"):
            await client.get(things, "a")
        with pytest.raises(UndecodableError, match="more than"):
            await anext(client.list(things))
        assert (await client.get(things, "a")).size == 3


async def test_an_answer_of_just_the_limit_is_read(plain, things) -> None:
    text = json.dumps(plain.thing("a", 1, size=3)).encode()
    plain.replies += [plain.body(200, text.ljust(LIMIT)), plain.body(200, text.ljust(LIMIT + 1))]

    async with plain.client(answer_bytes=LIMIT) as client:
        assert (await client.get(things, "a")).size == 3
        with pytest.raises(UndecodableError, match="more than"):
            await client.get(things, "a")


async def test_a_refusal_without_end_is_reported_by_its_first_words(script, things) -> None:
    script.replies.append(endless_refusal)

    async with script.client() as client:
        with pytest.raises(ApiError, match="xxx") as caught:
            await client.get(things, "a")

    assert caught.value.code == 500
    assert len(str(caught.value)) < 1000


async def test_nothing_is_unpacked_where_there_is_a_limit(plain, things) -> None:
    """A few bytes could become any number of them."""
    packed = gzip.compress(json.dumps(plain.thing("a", 1)).encode())
    reply = plain.body(200, packed, Content_Encoding="gzip")
    plain.replies += [reply, reply]

    async with plain.client(answer_bytes=LIMIT) as client:
        with pytest.raises(UndecodableError):
            await client.get(things, "a")
    async with plain.client() as client:
        assert (await client.get(things, "a")).metadata.name == "a"

    limited, free = (one.headers["accept-encoding"] for one in plain.seen)
    assert limited == "identity"
    assert "gzip" in free


async def test_the_log_is_not_for_its_warnings(plain, things, caplog) -> None:
    plain.replies.append(plain.body(200, plain.thing("a", 1), Warning=f'299 - "{"x" * 5000}"'))

    with caplog.at_level(logging.WARNING):
        async with plain.client(answer_bytes=LIMIT) as client:
            await client.get(things, "a")

    assert not caplog.records


@pytest.mark.parametrize(
    "start", [b"[", b'{"a":', b'{"metadata":{},"items":[', b'{"details":{"a":[']
)
async def test_an_answer_that_is_nested_without_end_is_undecodable(
    plain, things, start: bytes
) -> None:
    deep = start + b"[" * 50_000
    plain.replies += [plain.body(200, deep), plain.body(200, deep), plain.body(500, deep)]

    async with plain.client(answer_bytes=LIMIT) as client:
        with pytest.raises(UndecodableError):
            await client.get(things, "a")
        with pytest.raises(UndecodableError):
            await anext(client.list(things))
        with pytest.raises(ApiError, match="500"):
            await client.get(things, "a")
