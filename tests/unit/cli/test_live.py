"""A view that is followed while what it shows, or the server, goes away."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from kapilite.server import ApiServer
from laneway.changes import watching
from laneway.cli import live
from laneway.cli.errors import Failure
from laneway.cli.output import View
from laneway.controllers.takeover.record import CONFIG_MAPS
from laneway.kube.client import Client
from laneway.kube.cluster import Cluster, ClusterConfig
from laneway.kube.errors import NotFoundError

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}}


@contextlib.asynccontextmanager
async def running(path: str) -> AsyncIterator[ApiServer]:
    server = ApiServer(path)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def followed(url: str) -> AsyncIterator[tuple[Client, asyncio.Task[None]]]:
    async with Client(ClusterConfig(Cluster(url)), connect_delays=()) as client:

        async def look() -> View:
            try:
                found: Any = await client.get(CONFIG_MAPS, "one", "default")
            except NotFoundError:
                raise Failure("it was deleted") from None
            names = [str(found.data)]
            return View(document=None, names=names, text=lambda _: "")

        await client.create(CONFIG_MAPS, MAP, "default")
        task = asyncio.create_task(live.follow(client, [CONFIG_MAPS], look, "name"))
        try:
            yield client, task
        finally:
            task.cancel()
            await asyncio.wait([task])


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - what is printed sets no event
            await asyncio.sleep(0.02)


async def test_the_last_view_stays_while_the_server_is_away(
    tmp_path: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(live, "_SETTLE", 0.0)
    out, err, path = "", "", str(tmp_path / "state.db")

    def said() -> bool:
        nonlocal out, err
        now = capfd.readouterr()
        out, err = out + now.out, err + now.err
        return True

    async with running(path) as server, followed(server.url) as (client, task):
        await until(lambda: said() and "{}" in out)
        await server.stop()
        await until(lambda: said() and "this may be out of date" in err)
        await server.start()
        await client.patch(CONFIG_MAPS, "one", {"data": {"a": "b"}}, "default")
        await until(lambda: said() and "'a': 'b'" in out)
        assert not task.done()
    assert (out.count("\n"), err.count("\n")) == (2, 1)


async def test_what_goes_wrong_later_is_reported_as_at_first(tmp_path: Any) -> None:
    async with (
        running(str(tmp_path / "state.db")) as server,
        followed(server.url) as (client, task),
    ):
        await client.delete(CONFIG_MAPS, "one", "default")

        with pytest.raises(Failure, match="it was deleted"):
            await asyncio.wait_for(task, 30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_terminal_back_as_it_was(number: signal.Signals) -> None:
    terminal, side = pty.openpty()
    command = [sys.executable, "-m", "laneway", "devices", "--simulate", "plain", "--watch"]
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        assert b"\x1b[?1049h" in _read(terminal, b"ADDRESS")
        process.send_signal(number)
        rest = _read(terminal, b"\x1b[?1049l")
    os.close(terminal)
    assert b"\x1b[?25h" in rest
    assert process.returncode == 130


def _read(terminal: int, until: bytes) -> bytes:
    """What comes up to these bytes."""
    found = b""
    while until not in found:
        found += os.read(terminal, 4096)
    return found
