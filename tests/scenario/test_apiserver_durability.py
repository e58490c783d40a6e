"""What was answered is there after `kill -9`, and watchers resume."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

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


@pytest.mark.parametrize("acknowledged", [1, 37, 150])
async def test_every_acknowledged_write_survives_a_kill(tmp_path: Path, acknowledged: int) -> None:
    path = tmp_path / "state.db"
    answers: dict[str, int] = {}

    async def write(session: aiohttp.ClientSession, url: str, writer: int) -> None:
        for number in range(10_000):
            name = f"w{writer}-{number}"
            body = {"metadata": {"name": name}, "data": {"x": "y" * 500}}
            try:
                async with session.post(url + CONFIGMAPS, json=body) as response:
                    made = json.loads(await response.read())
            except aiohttp.ClientError:
                return
            answers[name] = int(made["metadata"]["resourceVersion"])
            if len(answers) == acknowledged:
                process.send_signal(signal.SIGKILL)

    async with started(path) as (process, url), aiohttp.ClientSession() as session:
        await asyncio.gather(*(write(session, url, writer) for writer in range(4)))
        assert await process.wait() == -signal.SIGKILL
    assert len(answers) >= acknowledged

    async with started(path) as (_, url), aiohttp.ClientSession() as session:
        async with session.get(url + CONFIGMAPS) as response:
            found = await response.json()
        stored = {
            item["metadata"]["name"]: int(item["metadata"]["resourceVersion"])
            for item in found["items"]
        }
        assert answers.items() <= stored.items()
        assert all(len(item["data"]["x"]) == 500 for item in found["items"])

        first = min(answers.values())
        params = {"watch": "1", "resourceVersion": str(first)}
        async with session.get(url + CONFIGMAPS, params=params) as watch:
            body = {"metadata": {"name": "after"}}
            async with session.post(url + CONFIGMAPS, json=body) as response:
                made = await response.json()
            assert int(made["metadata"]["resourceVersion"]) > max(stored.values())
            seen = []
            async for line in watch.content:
                seen.append(json.loads(line)["object"]["metadata"]["name"])
                if seen[-1] == "after":
                    break
        assert set(seen) == {name for name, rv in stored.items() if rv > first} | {"after"}
