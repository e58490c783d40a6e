"""Writes that may wait in the kernel for ever, made in small processes of their own.

A thread that waits in the kernel cannot be ended, not even by SIGKILL of its process, and keeps
that process from ending; a child that waits can be left behind. One is kept warm, because starting
it takes longer than nearly every write. It opens and writes what it is sent, once, and answers with
the errno; when its parent is gone it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
import weakref

_SCRIPT = """
import os
def take(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(0)
        data += part
    return data
while True:
    flags, path, data = (int(take(10)) for _ in range(3))
    path, data = take(path), take(data)
    answer = 0
    try:
        fd = os.open(path, flags)
        try:
            if os.write(fd, data) != len(data):
                answer = -1
        finally:
            os.close(fd)
    except OSError as error:
        answer = error.errno
    try:
        os.write(1, b"%d\\n" % answer)
    except OSError:
        os._exit(0)
"""
"""Runs without any library: it starts in a few milliseconds and holds next to no memory."""


class Writers:
    """The writing processes of one host. Owns them until each has ended or was left behind."""

    def __init__(self) -> None:
        self._idle: list[_Writer] = []
        self._left: set[int] = set()
        """Processes that were abandoned and may not have ended yet."""
        weakref.finalize(self, _dismiss, self._idle, self._left)

    async def write(self, path: str, data: bytes, flags: int, seconds: float) -> None:
        """One open, one write. Raises OSError, ETIMEDOUT when the write was left behind."""
        self._reap()
        writer = self._take()
        try:
            async with asyncio.timeout(seconds):
                answer = await writer.write(path, data, flags)
        except TimeoutError:
            self._abandon(writer)
            raise OSError(
                errno.ETIMEDOUT, f"no answer from the kernel within {seconds:g} s", path
            ) from None
        except BaseException:
            self._abandon(writer)
            raise
        if self._idle:
            self._abandon(writer)
        else:
            self._idle.append(writer)
        if answer:
            text = os.strerror(answer) if answer > 0 else "the kernel took only a part of the value"
            raise OSError(answer if answer > 0 else errno.EIO, text, path)

    def _take(self) -> _Writer:
        while self._idle:
            writer = self._idle.pop()
            if not _has_ended(writer.pid):
                return writer
            writer.close()
        return _Writer()

    def _abandon(self, writer: _Writer) -> None:
        writer.close()
        self._left.add(writer.pid)

    def _reap(self) -> None:
        self._left -= {pid for pid in self._left if _has_ended(pid)}


class _Writer:
    """One process."""

    def __init__(self) -> None:
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            self.pid = os.posix_spawn(
                sys.executable,
                [sys.executable, "-I", "-S", "-c", _SCRIPT],
                {},
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, theirs_in, 0),
                    (os.POSIX_SPAWN_DUP2, theirs_out, 1),
                    (os.POSIX_SPAWN_DUP2, nothing, 2),
                ],
                # What a terminal sends to stop us must not interrupt the kernel in a write.
                setsid=True,
            )
        except OSError:
            self.close()
            raise
        finally:
            for fd in (theirs_in, theirs_out, nothing):
                os.close(fd)
        os.set_blocking(self._from, False)

    async def write(self, path: str, data: bytes, flags: int) -> int:
        """The errno, 0 for success, -1 when only a part was taken."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        name = os.fsencode(path)
        head = b"%10d%10d%10d" % (flags, len(name), len(data))
        loop.add_reader(self._from, _settle, answered)
        try:
            os.write(self._to, head + name + data)
            await answered
            text = os.read(self._from, 32)
        finally:
            loop.remove_reader(self._from)
        if not text:
            raise OSError(errno.EIO, "the writing process ended", path)
        return int(text)

    def close(self) -> None:
        for fd in (self._to, self._from):
            os.close(fd)


def _settle(answered: asyncio.Future[None]) -> None:
    if not answered.done():
        answered.set_result(None)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def _dismiss(idle: list[_Writer], left: set[int]) -> None:
    """Let all of them end; one that cannot is not waited for."""
    for writer in idle:
        with contextlib.suppress(OSError):
            writer.close()
    for pid in left:
        _has_ended(pid)
