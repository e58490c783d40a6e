"""What was answered is there after `kill -9`, and watchers resume.

A server is killed at random moments while writers create, change and delete objects and their
dependents, and is started again on the same file. `LANEWAY_KILLS` says how often, `LANEWAY_SEED`
with what luck.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest

KILLS = int(os.environ.get("LANEWAY_KILLS", "10"))
WRITERS = 4
NAMES = 6
"""Names that one writer uses: few, so that each is created, changed and deleted again and again."""

PROGRAM = """
import asyncio, sys
from laneway.apiserver.server import ApiServer

async def main() -> None:
    server = ApiServer(sys.argv[1])
    await server.start()
    print(server.url, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
FAILED = (aiohttp.ClientError, ConnectionError, asyncio.IncompleteReadError)


@asynccontextmanager
async def started(path: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM, str(path), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield process, (await process.stdout.readline()).decode().strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Writer:
    """Changes objects of its own, and remembers what the server has answered."""

    def __init__(self, number: int, seed: int) -> None:
        self.number = number
        self.random = random.Random(seed)
        self.known: dict[str, int | None] = {}
        """Each name's latest answered value; None is deleted."""
        self.open: dict[str, set[int | None]] = {}
        """What a name may be as well: the request was sent, and never answered."""
        self.count = 0
        self.newest = 0

    async def run(self, session: aiohttp.ClientSession, url: str) -> None:
        with suppress(*FAILED):
            while True:
                await self._change(session, url, f"w{self.number}-{self.random.randrange(NAMES)}")

    async def _change(self, session: aiohttp.ClientSession, url: str, name: str) -> None:
        self.count += 1
        path = f"{url}{CONFIGMAPS}"
        body: Any = {
            "metadata": {"name": name, "labels": {"writer": "yes"}},
            "data": {"value": str(self.count), "half": str(self.count), "x": "y" * 2000},
        }
        before = self.known.get(name)
        target: int | None = self.count
        if before is None:
            request = session.post(path, json=body)
        elif self.random.random() < 0.3:
            request, target = session.delete(f"{path}/{name}"), None
        else:
            request = session.put(f"{path}/{name}", json=body)
        self.open[name] = {before, target}
        async with request as response:
            answer = json.loads(await response.read())
            assert response.status < 300, answer
        self.known[name] = target
        del self.open[name]
        if target is not None:
            self.newest = max(self.newest, int(answer["metadata"]["resourceVersion"]))

    def check(self, found: dict[str, int]) -> None:
        """Every answered write is there; one without an answer happened or did not."""
        for name in self.known.keys() | self.open.keys():
            assert found.get(name) in self.open.get(name, {self.known.get(name)}), name
            self.known[name] = found.get(name)
        self.open.clear()


class Watcher:
    """Follows the objects through all restarts, and so knows what there is."""

    def __init__(self) -> None:
        self.rv = 0
        self.now: dict[str, int] = {}
        self.seen: list[int] = []

    async def run(self, session: aiohttp.ClientSession, url: str, until: int | None = None) -> None:
        params = {"watch": "1", "resourceVersion": str(self.rv), "labelSelector": "writer"}
        with suppress(*FAILED):
            async with session.get(url + CONFIGMAPS, params=params) as response:
                async for line in response.content:
                    if not line.endswith(b"\n"):
                        return  # cut off by the kill: not an event
                    self._take(json.loads(line))
                    if until is not None and self.rv >= until:
                        return

    def _take(self, event: dict[str, Any]) -> None:
        assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
        meta = event["object"]["metadata"]
        self.rv = int(meta["resourceVersion"])
        self.seen.append(self.rv)
        name = meta["name"]
        assert (event["type"] == "ADDED") == (name not in self.now), "no gap and no duplicate"
        if event["type"] == "DELETED":
            del self.now[name]
        else:
            self.now[name] = int(event["object"]["data"]["value"])


async def cascade(session: aiohttp.ClientSession, url: str, numbers: list[int]) -> None:
    """Owners with dependents, deleted in every way, so that kills fall into what follows."""
    with suppress(*FAILED):
        while True:
            numbers.append(len(numbers))
            name = f"owner-{len(numbers)}"
            path = url + CONFIGMAPS
            async with session.post(path, json={"metadata": {"name": name}}) as response:
                uid = (await response.json())["metadata"]["uid"]
            ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
            for child in range(20):
                meta = {"ownerReferences": [ref | {"blockOwnerDeletion": True}]}
                body = {"metadata": meta | {"name": f"{name}-{child}", "labels": {"of": name}}}
                await (await session.post(path, json=body)).read()
            policy = ("Background", "Foreground")[len(numbers) % 2]
            async with session.delete(f"{path}/{name}?propagationPolicy={policy}") as response:
                await response.read()


async def listed(session: aiohttp.ClientSession, url: str, selector: str) -> dict[str, Any]:
    params = {"labelSelector": selector}
    async with session.get(url + CONFIGMAPS, params=params) as response:
        found: dict[str, Any] = await response.json()
    return found


@pytest.mark.timeout(60 + 10 * KILLS)
async def test_every_acknowledged_write_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    seed = int(os.environ.get("LANEWAY_SEED", "1"))
    chance = random.Random(seed)
    writers = [Writer(number, seed + number) for number in range(WRITERS)]
    watcher = Watcher()
    owners: list[int] = []
    for _ in range(KILLS):
        async with started(path) as (process, url), aiohttp.ClientSession() as session:
            await verify(session, url, writers, watcher)
            tasks = [asyncio.create_task(writer.run(session, url)) for writer in writers]
            tasks.append(asyncio.create_task(watcher.run(session, url)))
            tasks.append(asyncio.create_task(cascade(session, url, owners)))
            goal = sum(writer.count for writer in writers) + chance.randrange(1, 200)
            async with asyncio.timeout(60):
                while sum(writer.count for writer in writers) < goal:  # noqa: ASYNC110
                    await asyncio.sleep(chance.random() / 200)
            process.send_signal(signal.SIGKILL)
            assert await process.wait() == -signal.SIGKILL
            await asyncio.gather(*tasks)
        consistent(path)
    async with started(path) as (_, url), aiohttp.ClientSession() as session:
        await verify(session, url, writers, watcher)
    assert watcher.seen == sorted(set(watcher.seen))


async def verify(
    session: aiohttp.ClientSession, url: str, writers: list[Writer], watcher: Watcher
) -> None:
    """The server has everything that its clients know of, and the watcher catches up."""
    found = await listed(session, url, "writer")
    for item in found["items"]:
        assert item["data"]["value"] == item["data"]["half"]
        assert len(item["data"]["x"]) == 2000
    values = {item["metadata"]["name"]: int(item["data"]["value"]) for item in found["items"]}
    newest = int(found["metadata"]["resourceVersion"])
    for writer in writers:
        writer.check(values)
        assert writer.newest <= newest, "versions never go back"
    assert watcher.rv <= newest
    watcher.rv = watcher.rv or newest

    # A change that the watcher must come to in the end shows that it has seen all before.
    path = f"{url}{CONFIGMAPS}"
    mark = {"metadata": {"name": "mark", "labels": {"writer": "yes"}}, "data": {"value": "0"}}
    mark["data"] |= {"half": "0", "x": "y" * 2000}
    async with session.post(path, json=mark) as response:
        made = await response.json()
        assert response.status == 201, made
    async with session.delete(f"{path}/mark") as response:
        await response.read()
    async with asyncio.timeout(30):
        await watcher.run(session, url, until=int(made["metadata"]["resourceVersion"]))
    assert watcher.now == values | {"mark": 0}

    # What was to follow from a deletion follows.
    async with asyncio.timeout(30):
        while await orphans(session, url):  # noqa: ASYNC110 - a request is the event
            await asyncio.sleep(0.01)


async def orphans(session: aiohttp.ClientSession, url: str) -> set[str]:
    """Owners that wait to go, and dependents without an owner."""
    every = (await listed(session, url, ""))["items"]
    names = {item["metadata"]["name"] for item in every}
    left = {i["metadata"]["name"] for i in every if "deletionTimestamp" in i["metadata"]}
    for item in every:
        owner = item["metadata"].get("labels", {}).get("of")
        if owner is not None and owner not in names:
            left.add(item["metadata"]["name"])
    return left


def consistent(path: Path) -> None:
    """The index of owners says what the objects say, and no object is half written."""
    with sqlite3.connect(path) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        indexed = set(db.execute("SELECT uid, name FROM owner"))
        said = set()
        for name, rv, body in db.execute("SELECT name, rv, body FROM object"):
            meta = json.loads(body)["metadata"]
            assert meta["resourceVersion"] == str(rv)
            said |= {(ref["uid"], name) for ref in meta.get("ownerReferences") or ()}
        assert indexed == said
    db.close()
