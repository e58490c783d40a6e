"""The driver's daemons, as real processes: they stay, leave their starter, end, are killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.toolkit import daemons
from laneway.toolkit.daemons import Daemons, adopt

STAYS = "exec sleep 1000"
NAME = "nvidia-vgpu-mgr"


def runs(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def comm(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


@contextlib.contextmanager
def oddly_named() -> Iterator[None]:
    """A process of the node that calls itself by bytes that are no text."""
    code = "open('/proc/self/comm', 'wb').write(b') \\xff'); print(flush=True); input()"
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.kill()


class Programs:
    """Programs in a folder; `vgpud` notes each of its runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = folder / "runs"

    def write(self, name: str, script: str) -> str:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def daemons(self, manager: str, vgpud: str = "") -> Daemons:
        noting = vgpud or f"echo >>{self.runs}"
        return Daemons(self.write("nvidia-vgpud", noting), self.write(NAME, manager))

    def count(self) -> int:
        return len(self.runs.read_text().splitlines())


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Programs]:
    monkeypatch.setattr(daemons, "_STARTING", 0.4)
    monkeypatch.setattr(daemons, "_PAUSE", 0.0)
    adopt()
    return Programs(tmp_path)


async def test_a_driver_without_daemons_needs_none(tmp_path: Path) -> None:
    none = Daemons(str(tmp_path / "a"), str(tmp_path / "b"))

    await none.start()
    await none.stop()

    assert none.pids() == frozenset()


async def test_a_manager_that_stays_is_ended_with_the_container(programs: Programs) -> None:
    started = programs.daemons(STAYS)
    await started.start()
    (pid,) = started.pids()

    await started.stop()

    assert not runs(pid)
    assert programs.count() == 1


async def test_a_manager_that_leaves_its_starter_is_found(programs: Programs) -> None:
    python = f'python3 -c "import time; open(\\"/proc/self/comm\\", \\"w\\").write(\\"{NAME}\\")\n'
    started = programs.daemons(f'{python}time.sleep(1000)" >/dev/null 2>&1 &\nsleep 0.2')
    with oddly_named():
        await started.start()
    (pid,) = started.pids()

    assert comm(pid) == NAME
    await started.stop()
    assert not runs(pid)


async def test_a_manager_that_ends_is_started_again(programs: Programs) -> None:
    started = programs.daemons(STAYS)
    await started.start()
    (first,) = started.pids()
    watching = asyncio.create_task(started.watch())

    os.kill(first, signal.SIGKILL)
    while started.pids() in (frozenset(), {first}):  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)

    assert programs.count() == 2
    watching.cancel()
    await started.stop()


async def test_a_manager_is_started_again_though_watching_is_interrupted(
    programs: Programs,
) -> None:
    """As by an upgrade that waits, and looks every few seconds whether it can go on."""
    started = programs.daemons(STAYS)
    await started.start()
    (first,) = started.pids()
    watching = asyncio.create_task(started.watch())
    os.kill(first, signal.SIGKILL)
    while started.pids():  # noqa: ASYNC110 - nothing announces it
        await asyncio.sleep(0.01)
    watching.cancel()

    watching = asyncio.create_task(started.watch())
    async with asyncio.timeout(20):
        while not started.pids():  # noqa: ASYNC110 - nothing announces it
            await asyncio.sleep(0.01)

    watching.cancel()
    await started.stop()


async def test_a_manager_that_ends_again_and_again_is_a_failure(
    programs: Programs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "_STARTING", 0.05)
    started = programs.daemons(STAYS)
    await started.start()
    watching = asyncio.create_task(started.watch())

    while not watching.done():
        for pid in started.pids():
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(0.01)

    with pytest.raises(ToolkitError, match="nvidia-vgpu-mgr ended 6 times"):
        await watching


async def test_a_manager_that_does_not_stay_is_a_failure(programs: Programs) -> None:
    with pytest.raises(ToolkitError, match="nvidia-vgpu-mgr ended with status 7 at its start"):
        await programs.daemons("exit 7").start()


async def test_a_vgpud_that_fails_is_a_failure(programs: Programs) -> None:
    with pytest.raises(ToolkitError, match="nvidia-vgpud ended with status 3"):
        await programs.daemons(STAYS, "exit 3").start()
