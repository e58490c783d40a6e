"""The processes that a measurement looks at from outside, each as a script of its own.

A script imports only what its part needs, and has the environment that the image gives it, so that
its memory is that of the part. It answers every
line on its standard input by one line of JSON, beginning with one when it is ready.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

_BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_STOP_SECONDS = 10
_GIVEN = {"MALLOC_ARENA_MAX": "1"}
"""As in the Containerfile."""
_NOT_GIVEN = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Where a machine has certificates of its own, which every process would have in memory."""


class Child:
    """A running script."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def answer(self) -> Any:
        """The next line that it writes."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a measured process ended ({await self._process.wait()})")
        return msgspec.json.decode(line)

    async def ask(self, *words: str) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words).encode() + b"\n")
        return await self.answer()


@asynccontextmanager
async def start(script: str, *args: str) -> AsyncIterator[Child]:
    """Run `support/SCRIPT.py`; it ends with the end of its input."""
    environment = {**os.environ, **_GIVEN}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"support.{script}",
        *args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=_BENCH,
        env={name: value for name, value in environment.items() if name not in _NOT_GIVEN},
    )
    try:
        yield Child(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_SECONDS)
        except TimeoutError:
            process.kill()
            await process.wait()


def say(value: Any) -> None:
    """In a script: answer."""
    sys.stdout.buffer.write(msgspec.json.encode(value) + b"\n")
    sys.stdout.buffer.flush()


async def orders() -> AsyncIterator[list[str]]:
    """In a script: what is asked, as words, until the end of the input."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield line.decode().split()
