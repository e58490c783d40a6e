"""Starts a program, waits for its end, and keeps the end of what it prints.

A program gets an argument vector, a session of its own, an empty input and an environment that
names only the system's folders and a locale, mostly the plain one, so that neither our secrets nor
a user's settings reach it. It has a time limit: then it is asked to end, then its whole process
group is killed. What even that does not end, because it waits inside the kernel, is left behind: it
is reaped when the kernel releases it and delays nothing until then.

Output goes through pipes that are read here and not by asyncio's streams, for two reasons: memory
stays bounded whatever is printed, and a process that the program left running with its output open
does not keep us waiting for the end of a program that has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Self

from laneway.core.printed import Tail, joined

log = logging.getLogger(__name__)

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
PATH = {"PATH": ":".join(FOLDERS)}
PLAIN = {"LC_ALL": "C"}
GRACE = 2.0
"""Seconds between asking a program to end, killing it, and leaving it behind."""
_POLL = 0.02
_CHUNK = 64 * 1024
_PIECES_LEFT = 16
"""More than a pipe holds (64 KiB unless it was enlarged, then up to 1 MiB)."""


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    """The exit status, or a signal's number as a negative one."""
    out: str
    err: str

    @property
    def status(self) -> int:
        """The exit status; for an end by a signal what a shell would tell."""
        return 128 - self.code if self.code < 0 else self.code

    @property
    def output(self) -> str:
        """What it printed, standard output first."""
        return joined(self.out, self.err)


async def run_bounded(
    command: Sequence[str],
    name: str,
    seconds: float,
    *,
    grace: float = GRACE,
    pass_fds: Collection[int] = (),
    locale: Mapping[str, str] = PLAIN,
) -> Ended:
    """Run a command, which errors call `name`.

    Raises OSError when it cannot be started, and TimeoutError (ETIMEDOUT).
    """
    with _Pipe() as out, _Pipe() as err:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=DEVNULL,
                stdout=out.writer,
                stderr=err.writer,
                env={**PATH, **locale},
                cwd="/",
                start_new_session=True,
                pass_fds=pass_fds,
            )
        except OSError as error:
            raise OSError(error.errno, f"{name} cannot be started: {error.strerror}") from error
        out.read()
        err.read()
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            late = f"{name} did not end within {seconds:g} s"
            if await _end(process, grace):
                raise TimeoutError(errno.ETIMEDOUT, f"{late} and was stopped") from None
            raise TimeoutError(
                errno.ETIMEDOUT, f"{late} and cannot be stopped, as it waits in the kernel"
            ) from None
        except BaseException:
            await _end(process, grace)
            raise
        return Ended(process.returncode or 0, out.rest(), err.rest())


async def _end(process: Process, grace: float) -> bool:
    """Stop a process, with all that it has started in its group; whether all of it is gone."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace):
                await process.wait()
                while _runs(process.pid):  # noqa: ASYNC110 - nothing announces it
                    await asyncio.sleep(_POLL)
                return True
    log.warning("process group %d cannot be ended and is left behind", process.pid)
    return False


def _runs(group: int) -> bool:
    """Whether a process of a group does more than wait to be reaped, which may never happen."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            state, _, pgrp, *_ = file.read().rpartition(")")[2].split()
            if int(pgrp) == group and state not in "ZX":
                return True
    return False


class _Pipe:
    """One output of a program, read as it comes."""

    def __enter__(self) -> Self:
        self._reader, self.writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._tail = Tail()
        self._open = False
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        for descriptor in (self._reader, self.writer):
            if descriptor >= 0:
                os.close(descriptor)

    def read(self) -> None:
        """Begin; the program has its own copy of the writing end by now."""
        os.close(self.writer)
        self.writer = -1
        self._open = True
        asyncio.get_running_loop().add_reader(self._reader, self._take)

    def rest(self) -> str:
        """All that was printed until now, even if a process goes on printing."""
        for _ in range(_PIECES_LEFT):
            if not self._open or not self._take():
                break
        return self._tail.text()

    def _take(self) -> bool:
        """Take one piece; false when there is none now or will be none any more."""
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._stop()
        self._tail.add(data)
        return bool(data)

    def _stop(self) -> None:
        if self._open:
            self._open = False
            asyncio.get_running_loop().remove_reader(self._reader)
