"""The kernel's log from `/dev/kmsg`.

Every reader has its own place in the kernel's ring buffer and begins at the oldest record of this
boot that is still there. What is overwritten before it was read is lost, and reading goes on with
the oldest that is left.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from laneway.core.kernel.log import CAUGHT_UP, parse_record
from laneway.host.port import KernelLogUnavailableError

_RECORD = 16 * 1024
"""The kernel's records stay below 8 KiB; it refuses to cut one."""
_AT_ONCE = 256
"""Records between which others have their turn: the buffer may hold thousands."""


@asynccontextmanager
async def kernel_log(path: str, obstacle: str = "") -> AsyncIterator[AsyncIterator[str]]:
    """Read the log at the path; refused with the `obstacle` if there is one."""
    if obstacle:
        raise KernelLogUnavailableError(obstacle)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _unavailable(path, error) from error
    try:
        async with aclosing(_messages(fd, path)) as messages:
            yield messages
    finally:
        os.close(fd)


async def _messages(fd: int, path: str) -> AsyncGenerator[str, None]:
    count = 0
    while True:
        try:
            record = os.read(fd, _RECORD)
        except BlockingIOError:
            yield CAUGHT_UP
            await _readable(fd, path)
            continue
        except OSError as error:
            if error.errno == errno.EPIPE:
                continue
            raise _unavailable(path, error) from error
        if not record:
            raise KernelLogUnavailableError(f"{path} has an end, so it is not the kernel's")
        if message := parse_record(record):
            yield message
        count += 1
        if count % _AT_ONCE == 0:
            await asyncio.sleep(0)


async def _readable(fd: int, path: str) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(fd, ready.set)
    except OSError as error:
        raise _unavailable(path, error) from error
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


def _unavailable(path: str, error: OSError) -> KernelLogUnavailableError:
    return KernelLogUnavailableError(f"{path} cannot be read ({error.strerror})")
