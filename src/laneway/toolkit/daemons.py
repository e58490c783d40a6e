"""Runs the driver's daemons, starts them again when they end, and ends them with the container.

`nvidia-vgpud` tells the driver which vGPU types there are, and ends. `nvidia-vgpu-mgr` serves the
VMs and stays; depending on the release it leaves its starter, so this process adopts what its
children leave behind (PR_SET_CHILD_SUBREAPER), as the container has no process 1 of its own. A
driver without these programs has no vGPUs, which is no failure.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import time
from typing import NamedTuple

from laneway.core.driver_toolkit import failure
from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.host.executors.bounded import PATH, PLAIN

log = logging.getLogger(__name__)

VGPUD = "/usr/bin/nvidia-vgpud"
MANAGER = "/usr/bin/nvidia-vgpu-mgr"
_PR_SET_CHILD_SUBREAPER = 36
_COMM = 15
"""Characters that the kernel keeps of a process's name."""
_STARTING = 5.0
"""A starter that has not ended by then is the daemon itself."""
_ENDING = 15.0
_RESTARTS = 5
_WINDOW = 600.0
_PAUSE = 2.0


def adopt() -> None:
    """Have processes whose parent ends become children of this one."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        log.warning("daemons cannot be adopted: %s", os.strerror(ctypes.get_errno()))


class _Daemon(NamedTuple):
    """A process that stays."""

    pid: int
    process: asyncio.subprocess.Process | None = None
    """None where it was adopted: asyncio then knows nothing of it."""

    async def ended(self) -> None:
        if self.process:
            await self.process.wait()
        else:
            await _ended(self.pid)


class Daemons:
    """The daemons of the driver that is installed."""

    def __init__(self, vgpud: str = VGPUD, manager: str = MANAGER) -> None:
        self._vgpud = vgpud
        self._manager = manager
        self._running: _Daemon | None = None
        self._kept = False
        """Whether the manager is to run, also while it does not."""
        self._ends: list[float] = []

    def pids(self) -> frozenset[int]:
        """The processes that end with `stop`."""
        return frozenset({self._running.pid} if self._running else ())

    async def start(self) -> None:
        """Start what the release has. Raises ToolkitError."""
        await self._launch()
        self._kept, self._ends = self._running is not None, []

    async def watch(self) -> None:
        """Keep the manager running. Raises ToolkitError when it ends again and again.

        May be cancelled at any time, also while the manager is started again: the next call goes on
        from there.
        """
        while self._kept:
            if self._running:
                await self._running.ended()
                self._running = None
                self._count_end()
            await asyncio.sleep(_PAUSE)
            await self._launch()
        await asyncio.Event().wait()

    def _count_end(self) -> None:
        name, now = os.path.basename(self._manager), time.monotonic()
        self._ends = [one for one in self._ends if now - one < _WINDOW] + [now]
        if len(self._ends) > _RESTARTS:
            raise ToolkitError(failure.daemon_failed(name, f"ended {len(self._ends)} times"))
        log.warning("%s ended and is started again", name)

    async def _launch(self) -> None:
        if os.access(self._vgpud, os.X_OK):
            await self._once(self._vgpud)
        if os.access(self._manager, os.X_OK):
            self._running = await self._daemon(self._manager)

    async def stop(self) -> None:
        """End the manager, by force if it must be."""
        running, self._running, self._kept = self._running, None, False
        if running is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(running.pid, number)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_ENDING):
                    await running.ended()
                return

    async def _once(self, path: str) -> None:
        name = os.path.basename(path)
        process = await self._spawn(path)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STARTING):
                status = await process.wait()
            if status != 0:
                raise ToolkitError(failure.daemon_failed(name, f"ended with status {status}"))

    async def _daemon(self, path: str) -> _Daemon:
        name = os.path.basename(path)
        process = await self._spawn(path)
        try:
            async with asyncio.timeout(_STARTING):
                status = await process.wait()
        except TimeoutError:
            return _Daemon(process.pid, process)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            raise
        if status == 0 and (pid := _adopted(name)):
            return _Daemon(pid)
        raise ToolkitError(failure.daemon_failed(name, f"ended with status {status} at its start"))

    async def _spawn(self, path: str) -> asyncio.subprocess.Process:
        try:
            return await asyncio.create_subprocess_exec(
                path,
                stdin=asyncio.subprocess.DEVNULL,
                env={**PATH, **PLAIN},
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            why = f"cannot be started: {error.strerror}"
            raise ToolkitError(failure.daemon_failed(os.path.basename(path), why)) from None


def _adopted(name: str) -> int:
    """The child of this process that has this name; 0 if none has."""
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{entry}/stat", "rb") as file:
            # Any process of the node names itself, in any bytes.
            head, _, rest = file.read().rpartition(b") ")
            state, parent, *_ = rest.split()
            if head.partition(b"(")[2] == name[:_COMM].encode() and int(parent) == os.getpid():
                if state not in b"ZX":
                    return int(entry)
                _reap(int(entry))
    return 0


def _reap(pid: int) -> None:
    """Of an adopted child that has ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


async def _ended(pid: int) -> None:
    """Wait for the end of an adopted child, and reap it."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    try:
        loop.add_reader(fd, over.set)
        await over.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    _reap(pid)
