"""Runs the driver's programs on the node itself.

A program gets an argument vector, a session of its own, an empty input and an environment that
names only the system's folders and the plain locale, so that neither our secrets nor a user's
settings reach it. It has a time limit: then it is asked to end, then its whole process group is
killed. What even that does not end, because it waits inside the kernel, is left behind: it is
reaped when the kernel lets go of it and holds up nothing until then.

Output goes through pipes that are read here and not by asyncio's streams, for two reasons: memory
stays bounded whatever is printed, and a process that the program left running with its output open
does not keep us waiting for the end of a program that has ended.

Below another root than `/` the program runs with that folder as its root, so that it finds its own
libraries and devices: the node's file system as a container sees it.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import signal
import stat
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Collection, Sequence
from typing import Self

from laneway.core.printed import Tail, joined
from laneway.core.programs import PROGRAMS
from laneway.host.executors.allowed import check_argv, check_program
from laneway.host.port import CommandMissingError, Completed
from laneway.host.real import RealHost

log = logging.getLogger(__name__)

FOLDERS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")
ENVIRONMENT = {"PATH": ":".join(FOLDERS), "LC_ALL": "C"}
GRACE = 2.0
"""Seconds between asking a program to end, killing it, and leaving it behind."""
_CHUNK = 64 * 1024
_PIECES_LEFT = 16
"""More than a pipe holds (64 KiB unless somebody enlarged it, then up to 1 MiB)."""


class LocalExecutor:
    """`Executor` on the node whose file system is at `root`."""

    def __init__(
        self, root: str = "/", *, programs: Collection[str] = PROGRAMS, grace: float = GRACE
    ) -> None:
        self._root = os.path.realpath(root).rstrip("/")
        self._files = RealHost(root)
        self._programs = programs
        self._grace = grace

    async def has(self, program: str) -> bool:
        check_program(program, self._programs)
        return self._find(program) is not None

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        check_argv(argv, self._programs)
        path = self._find(argv[0])
        if path is None:
            where = "" if "/" in argv[0] else f" in {', '.join(FOLDERS)}"
            raise CommandMissingError(
                errno.ENOENT, f"{argv[0]} is not installed on this node{where}"
            )
        command = [path, *argv[1:]]
        if self._root:
            command = ["/usr/sbin/chroot", self._root, *command]
        with _Pipe() as out, _Pipe() as err:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=DEVNULL,
                    stdout=out.writer,
                    stderr=err.writer,
                    env=ENVIRONMENT,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                raise OSError(
                    error.errno, f"{argv[0]} cannot be started: {error.strerror}"
                ) from error
            out.read()
            err.read()
            try:
                async with asyncio.timeout(seconds):
                    await process.wait()
            except TimeoutError:
                late = f"{argv[0]} did not end within {seconds:g} s"
                if await self._end(process):
                    raise TimeoutError(errno.ETIMEDOUT, f"{late} and was stopped") from None
                raise TimeoutError(
                    errno.ETIMEDOUT, f"{late} and cannot be stopped, as it waits in the kernel"
                ) from None
            except BaseException:
                await self._end(process)
                raise
            return Completed(_status(process), joined(out.rest(), err.rest()))

    def _find(self, program: str) -> str | None:
        """The program's path below the root, if it is there and may be run."""
        candidates = [program] if "/" in program else [f"{part}/{program}" for part in FOLDERS]
        for candidate in candidates:
            with contextlib.suppress(OSError):
                path = self._files.resolve(candidate)
                status = os.stat(self._root + path)
                if stat.S_ISREG(status.st_mode) and os.access(self._root + path, os.X_OK):
                    # Not the resolved one: some programs do as they are called.
                    return candidate
        return None

    async def _end(self, process: Process) -> bool:
        """Stop a process, with all that it has started in its group; whether it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), self._grace)
        if process.returncode is None:
            log.warning("process %d cannot be ended and is left behind", process.pid)
        return process.returncode is not None


def _status(process: Process) -> int:
    """The exit status; for an end by a signal what a shell, and a pod, would tell."""
    code = process.returncode or 0
    return 128 - code if code < 0 else code


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
        """All that was printed until now, even if somebody goes on printing."""
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
