"""A server that is killed again and again, and its clients."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sqlite3
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

HISTORY = 4_000
"""Fewer changes than many kills see, so that forgetting is interrupted too."""

# Forks a server for each line of input, so that only the first has to import; tells how it ended.
PROGRAM = f"""
import asyncio, os, sys
from kapilite.authn import Authenticator, User, keys
from kapilite.credentials.pki import ensure
from kapilite.server import ApiServer

async def serve(directory):
    asyncio.get_running_loop().add_reader(sys.stdin, os._exit, 1)  # the test is gone
    pki = ensure(directory + "/pki")
    users = {{"admin": User("admin", ("system:masters",)), "writer": User("writer")}}
    server = ApiServer(
        directory + "/state.db",
        tls=pki.ssl_context(),
        authenticator=Authenticator(users),
        signing_key=keys.ensure(directory + "/pki/service-accounts.key"),
        ca_pem=pki.ca_pem,
        history={HISTORY},
    )
    await server.start()
    print(server.url, flush=True)
    await asyncio.Event().wait()

for _ in sys.stdin:
    child = os.fork()
    if not child:
        print(os.getpid(), flush=True)
        asyncio.run(serve(sys.argv[1]))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

Object = dict[str, Any]
JSON = "application/json"


class Api:
    """A client of one life of the server."""

    def __init__(self, server: Servers, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def call(
        self, method: str, path: str, body: Any = None, media_type: str = JSON, **params: str
    ) -> tuple[int, Object]:
        headers = {"Content-Type": media_type}
        data = None if body is None else json.dumps(body).encode()
        async with self.session.request(
            method, path, data=data, headers=headers, params=params
        ) as response:
            answer: Object = json.loads(await response.read())
        if version := answer["metadata"].get("resourceVersion"):
            self.note(int(version))
        return response.status, answer

    @property
    def newest(self) -> int:
        """The greatest resourceVersion that any client has seen in any life of the server."""
        return self.server.newest

    def note(self, version: int) -> None:
        self.server.newest = max(self.newest, version)

    async def done(self, method: str, path: str, body: Any = None, **more: str) -> Object:
        status, answer = await self.call(method, path, body, **more)
        assert status < 300, answer
        return answer

    async def find(self, path: str) -> Object | None:
        status, answer = await self.call("GET", path)
        assert status in (200, 404), answer
        return answer if status == 200 else None


class Servers:
    """One server after another on the same directory."""

    def __init__(self, directory: Path, forks: asyncio.subprocess.Process) -> None:
        self.directory = directory
        self.newest = 0
        self._forks = forks
        self._pid = 0
        self._url = ""

    async def _line(self) -> str:
        assert self._forks.stdout is not None
        async with asyncio.timeout(60):
            return (await self._forks.stdout.readline()).decode().strip()

    async def start(self) -> None:
        assert self._forks.stdin is not None
        self._forks.stdin.write(b"\n")
        self._pid, self._url = int(await self._line()), ""

    async def kill(self) -> None:
        """It may have said something before, but no line is the end but this one."""
        os.kill(self._pid, signal.SIGKILL)
        while (said := await self._line()) != str(-signal.SIGKILL):
            assert said.startswith("https://"), f"it has ended by itself: {said}"
        check_store(self.directory)

    @asynccontextmanager
    async def client(self, user: str) -> AsyncIterator[Api]:
        """A user of the server that was started last, once it is ready."""
        self._url = self._url or await self._line()
        trust = ssl.create_default_context(cafile=self.directory / "pki" / "ca.crt")
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        headers = {"Authorization": f"Bearer {user}"}
        async with aiohttp.ClientSession(
            self._url, connector=connector, headers=headers
        ) as session:
            yield Api(self, session)


def check_store(directory: Path) -> None:
    """The store agrees with itself. A copy is looked at: the server has to recover by itself."""
    copy = directory.with_name("copy")
    shutil.copytree(directory, copy)
    db = sqlite3.connect(copy / "state.db")
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    indexed, said = set(db.execute("SELECT uid, resource, namespace, name FROM owner")), set()
    objects = db.execute("SELECT resource, namespace, name, rv, body FROM object").fetchall()
    namespaces = {name for resource, _, name, *_ in objects if resource == "namespaces"}
    for resource, namespace, name, rv, body in objects:
        meta = json.loads(body)["metadata"]
        assert meta["resourceVersion"] == str(rv)
        assert namespace in namespaces | {""}, "a namespace goes after its content"
        refs = meta.get("ownerReferences") or ()
        said |= {(ref["uid"], resource, namespace, name) for ref in refs}
    assert indexed == said
    crds = {name for resource, _, name, *_ in objects if resource.startswith("customresource")}
    own = {resource for resource, *_ in objects if resource.endswith(".example")}
    assert own <= crds, "a definition goes after its objects"
    first, last, count = db.execute("SELECT min(rv), max(rv), count(*) FROM event").fetchone()
    assert count == last - first + 1, "the history has no gap"
    (forgotten,) = db.execute("SELECT rv FROM mark").fetchone()
    assert first == forgotten + 1, "a watch is told when it comes too late"
    now = "SELECT count(*) FROM object JOIN event USING(rv) WHERE object.body IS NOT event.body"
    assert db.execute(now).fetchone() == (0,)
    db.close()
    shutil.rmtree(copy)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Servers]:
    directory = tmp_path / "data"
    directory.mkdir()
    pipe = asyncio.subprocess.PIPE
    forks = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(directory), stdin=pipe, stdout=pipe
    )
    try:
        yield Servers(directory, forks)
    finally:
        assert forks.stdin is not None
        forks.stdin.close()
        await forks.wait()
