"""A package comes to the node from a real HTTP server, over lines and servers with every fault."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.driver_toolkit.settings import Settings
from laneway.toolkit.cache import Cache, private_copy
from laneway.toolkit.download import Pace
from laneway.toolkit.obtain import obtain

PACKAGE = os.urandom(300_000)
OTHER = os.urandom(300_000)
HASH = hashlib.sha256(PACKAGE).hexdigest()
AT_ONCE = Pace(tries=3, pause=0, longest=0, progress=0)

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Server:
    """Serves one file with an entity tag and ranges; `answers` come first, one per request."""

    def __init__(self) -> None:
        self.content = PACKAGE
        self.tag = '"1"'
        self.asked: list[str] = []
        """The range of every request."""
        self.answers: list[Answering] = []
        self.url = ""

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.headers.get("Range", ""))
        return await (self.answers.pop(0) if self.answers else self.whole)(request)

    async def whole(self, request: web.Request) -> web.StreamResponse:
        start = self.start(request)
        headers = {"ETag": self.tag}
        if start:
            size = len(self.content)
            headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
        status = 206 if start else 200
        return web.Response(status=status, body=self.content[start:], headers=headers)

    def start(self, request: web.Request) -> int:
        found = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range", ""))
        return int(found[1]) if found and request.headers.get("If-Range") == self.tag else 0

    def cut_after(self, count: int) -> Answering:
        """Announces all that is missing and closes the connection after some bytes of it."""

        async def answer(request: web.Request) -> web.StreamResponse:
            start = self.start(request)
            size = len(self.content)
            headers = {"ETag": self.tag, "Content-Length": str(size - start)}
            if start:
                headers["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
            response = web.StreamResponse(status=206 if start else 200, headers=headers)
            await response.prepare(request)
            await response.write(self.content[start : start + count])
            assert request.transport is not None
            request.transport.close()
            return response

        return answer


def status(number: int, **headers: str) -> Answering:
    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(status=number, headers=headers)

    return answer


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    found = Server()
    runner = web.ServerRunner(web.Server(found))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.url = f"http://127.0.0.1:{runner.addresses[0][1]}/driver.run"
    yield found
    await runner.cleanup()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(str(tmp_path / "cache"))


def settings(location: str) -> Settings:
    return Settings(location=location, version="570.1.1", sha256=HASH)


async def fetch(cache: Cache, location: str) -> list[str]:
    said: list[str] = []
    await obtain(cache, settings(location), said.append, AT_ONCE)
    return said


async def refused(cache: Cache, location: str) -> ToolkitError:
    with pytest.raises(ToolkitError) as caught:
        await fetch(cache, location)
    assert not cache.has(HASH)
    return caught.value


def stored(cache: Cache) -> bytes:
    return Path(cache.package(HASH)).read_bytes()


async def test_a_package_is_downloaded_once(server: Server, cache: Cache) -> None:
    said = await fetch(cache, server.url)
    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE
    assert len(server.asked) == 1
    assert any(line.startswith("downloading: ") and "%" in line for line in said)
    assert sorted(os.listdir(cache.folder(HASH))) == ["package.run"]


async def test_a_download_that_is_cut_off_goes_on_from_there(server: Server, cache: Cache) -> None:
    server.answers = [server.cut_after(100_000), server.cut_after(100_000)]

    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE
    assert server.asked == ["", "bytes=100000-", "bytes=200000-"]


async def test_a_download_goes_on_in_another_container(server: Server, cache: Cache) -> None:
    server.answers = [server.cut_after(100_000), *[status(503)] * 3]
    failure = (await refused(cache, server.url)).failure
    assert (failure.reason, failure.passing) == ("DownloadFailed", True)
    assert "status 503" in failure.message

    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE
    assert server.asked[-1] == "bytes=100000-"


async def test_a_file_that_has_changed_meanwhile_is_taken_from_its_beginning(
    server: Server, cache: Cache
) -> None:
    server.content = OTHER
    server.answers = [server.cut_after(100_000)]

    async def changed(request: web.Request) -> web.StreamResponse:
        server.content, server.tag = PACKAGE, '"2"'
        return await server.whole(request)

    server.answers.append(changed)

    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE


async def test_a_server_that_continues_another_file_costs_one_more_download(
    server: Server, cache: Cache
) -> None:
    """It calls both versions by one tag, so only the hash tells."""
    server.content = OTHER
    server.answers = [server.cut_after(100_000), *[status(503)] * 3]
    await refused(cache, server.url)
    server.content = PACKAGE

    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE
    assert server.asked[-2:] == ["bytes=100000-", ""]


async def test_a_file_with_another_hash_is_removed(server: Server, cache: Cache) -> None:
    server.content = OTHER

    failure = (await refused(cache, f"{server.url}?token=secret")).failure

    assert (failure.reason, failure.passing) == ("HashMismatch", False)
    assert hashlib.sha256(OTHER).hexdigest() in failure.message
    assert "secret" not in failure.message
    assert os.listdir(cache.folder(HASH)) == []
    assert len(server.asked) == 1


@pytest.mark.parametrize("number", [401, 403, 404, 410])
async def test_a_file_that_is_not_there_is_not_tried_again(
    server: Server, cache: Cache, number: int
) -> None:
    server.answers = [status(number)]

    failure = (await refused(cache, server.url)).failure

    assert failure.reason == "PackageNotFound"
    assert f"status {number}" in failure.message
    assert len(server.asked) == 1


async def test_a_redirect_is_followed(server: Server, cache: Cache) -> None:
    server.answers = [status(302, Location="/elsewhere.run?signature=1")]

    await fetch(cache, server.url)

    assert stored(cache) == PACKAGE


@pytest.mark.parametrize("target", ["file:///etc/shadow", "ftp://127.0.0.1/x", ""])
async def test_a_redirect_to_another_scheme_is_refused(
    server: Server, cache: Cache, target: str
) -> None:
    server.answers = [status(301, Location=target)]

    failure = (await refused(cache, server.url)).failure

    assert (failure.reason, failure.passing) == ("RedirectRefused", False)


async def test_redirects_end_somewhere(server: Server, cache: Cache) -> None:
    server.answers = [status(302, Location="/driver.run")] * 20

    assert (await refused(cache, server.url)).failure.reason == "RedirectRefused"
    assert len(server.asked) == 6


async def test_a_server_that_is_not_there_is_tried_some_times(cache: Cache) -> None:
    nothing = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    port = nothing.sockets[0].getsockname()[1]
    nothing.close()
    await nothing.wait_closed()

    failure = (await refused(cache, f"http://127.0.0.1:{port}/driver.run")).failure

    assert (failure.reason, failure.passing) == ("DownloadFailed", True)
    assert "3 attempts" in failure.message


async def test_the_proxy_is_used(server: Server, cache: Cache) -> None:
    """The server stands for the proxy: it gets the whole address."""
    proxy = server.url.removesuffix("/driver.run")
    through = Settings(
        location="http://files.invalid/driver.run", version="570.1.1", sha256=HASH, proxy=proxy
    )

    await obtain(cache, through, lambda _text: None, AT_ONCE)

    assert stored(cache) == PACKAGE


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_is_named_without_its_password(
    server: Server, cache: Cache, scheme: str
) -> None:
    server.answers = [status(407)] * 3
    through = Settings(
        location=f"{scheme}://files.invalid/driver.run?signature=secret",
        version="570.1.1",
        sha256=HASH,
        proxy=server.url.replace("://", "://user:secret@").removesuffix("/driver.run"),
    )
    said: list[str] = []

    with pytest.raises(ToolkitError) as caught:
        await obtain(cache, through, said.append, AT_ONCE)

    assert "the proxy answers with status 407" in caught.value.failure.message
    assert "secret" not in "".join([caught.value.failure.message, *said])


async def test_an_answer_that_is_not_http_is_told_without_the_signature(cache: Cache) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"220 files.example FTP\r\n")
        writer.close()

    other = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{other.sockets[0].getsockname()[1]}/driver.run?signature=secret"

    async with other:
        message = (await refused(cache, url)).failure.message

    assert "the answer is not HTTP" in message
    assert "secret" not in message


async def test_authorities_that_cannot_be_read_are_named(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("nonsense")
    odd = Settings(
        location="https://127.0.0.1/x",
        version="570.1.1",
        sha256=HASH,
        ca_file=str(tmp_path / "ca.crt"),
    )

    with pytest.raises(ToolkitError, match=r"ca\.crt cannot be used"):
        await obtain(cache, odd, lambda _text: None, AT_ONCE)


async def test_a_package_comes_from_a_folder(cache: Cache, tmp_path: Path) -> None:
    source = tmp_path / "NVIDIA.run"

    failure = (await refused(cache, str(source))).failure
    assert (failure.reason, failure.passing) == ("PackageNotFound", False)

    source.write_bytes(OTHER)
    assert (await refused(cache, str(source))).failure.reason == "HashMismatch"

    source.write_bytes(PACKAGE)
    await fetch(cache, str(source))
    assert stored(cache) == PACKAGE


async def test_packages_that_are_not_needed_go(cache: Cache, tmp_path: Path) -> None:
    for name in ("a" * 64, "b" * 64):
        cache.folder(name)
    (tmp_path / "cache/state.json").write_text("{}")

    assert cache.keep_only({"a" * 64}) == ["b" * 64]
    assert sorted(os.listdir(tmp_path / "cache")) == ["a" * 64, "state.json"]


def test_what_is_run_is_what_was_hashed(tmp_path: Path) -> None:
    """A file in the place of the copy is not written through."""
    (tmp_path / "package.run").write_bytes(PACKAGE)
    (tmp_path / "precious").write_text("x")
    (tmp_path / "copy").symlink_to(tmp_path / "precious")

    assert private_copy(str(tmp_path / "package.run"), str(tmp_path / "copy")) == HASH
    assert (tmp_path / "copy").read_bytes() == PACKAGE
    assert (tmp_path / "precious").read_text() == "x"
