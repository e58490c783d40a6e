"""Programs of Laneway as processes of their own, measured from outside."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_STOP_SECONDS = 10


class Program:
    """A running program."""

    def __init__(
        self, process: asyncio.subprocess.Process, said: str, before: Sequence[str]
    ) -> None:
        self._process = process
        self.said = said
        """The line that it was waited for."""
        self.before = before
        """Those that came before it."""

    def cpu(self) -> float:
        """The seconds that it has computed."""
        with open(f"/proc/{self._process.pid}/stat", encoding="ascii", errors="replace") as file:
            after_name = file.read().rpartition(")")[2].split()
        return (int(after_name[11]) + int(after_name[12])) / _TICK

    def memory(self) -> float:
        """What it holds in memory, in MB."""
        with open(f"/proc/{self._process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * _PAGE / 1e6

    def peak(self) -> float:
        """The most that it has held, in MB."""
        with open(f"/proc/{self._process.pid}/status", encoding="ascii") as file:
            line = next(line for line in file if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6


@asynccontextmanager
async def program(module: str, *arguments: str, until: str) -> AsyncIterator[Program]:
    """Run `python -m MODULE` and go on once a line of what it says contains a text."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    lines = []
    while until not in (line := (await process.stdout.readline()).decode()):
        lines.append(line)
        if not line:
            raise SystemExit(f"{module} ended: {''.join(lines)}")
    reading = asyncio.create_task(process.stdout.read())
    try:
        yield Program(process, line, lines)
    finally:
        reading.cancel()
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()
