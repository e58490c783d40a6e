"""Faults to inject into a simulated host: refused writes, killed processes, failing commands.

What is counted is everything that can change the machine: writes, changes of owner and commands,
in the order in which they are made. A killed process makes no more calls: until the host is
restarted each one raises Killed, which no handler of errors catches.
"""

from __future__ import annotations

import errno
import os
import posixpath
from typing import Literal

import msgspec

from laneway.sim.locks import Locks
from laneway.sim.programs import Completed

When = Literal["before", "during", "after"]


class Killed(BaseException):
    """The process that made the call is dead."""


class Verdict(msgspec.Struct, frozen=True):
    """What is to happen to one write or command."""

    refuse: int = 0
    """errno instead of the effect"""
    report: int = 0
    """errno after the effect"""
    kill: When | None = None


_NOTHING = Verdict()


class Faults:
    """What will go wrong, and how often anything was tried."""

    def __init__(self, locks: Locks) -> None:
        self._locks = locks
        self.count = 0
        """Writes, changes of owner and commands so far."""
        self.asynchronous_probing = False
        """Drivers find their devices a moment after the write that announced them returned."""
        self.framebuffer_stays = False
        """vfio-pci leaves firmware's framebuffer in the memory of a GPU that it takes, and no VM
        can open the GPU: so it is before Linux 6.0."""
        self.probe_seconds = 0.0
        """How long each driver takes for a device; everything but its lock is free meanwhile."""
        self._verdicts: dict[int, Verdict] = {}
        self._refused: list[tuple[str, int, int]] = []
        self._blocked: set[str] = set()
        self._unreadable: dict[str, int] = {}
        self._probes: list[int] = []
        self._commands: dict[str, list[Completed]] = {}

    def fail_write(self, number: int, error: int) -> None:
        """Refuse the n-th write or command from now, before any effect."""
        self._decide(number, Verdict(refuse=error))

    def fail_after(self, number: int, error: int) -> None:
        """Report an error for the n-th write or command from now, though it has its effect."""
        self._decide(number, Verdict(report=error))

    def kill_at(self, number: int, when: When = "before") -> None:
        """Kill the process at its n-th write or command from now.

        `during`: the kernel finishes the write once the process is gone, see
        `SimulatedHost.restart`.
        """
        self._decide(number, Verdict(kill=when))

    def _decide(self, number: int, verdict: Verdict) -> None:
        with self._locks.lock:
            self._verdicts[self.count + number] = verdict

    def clear(self) -> None:
        """Let nothing go wrong any more; what waits because of `block` goes on."""
        with self._locks.lock:
            for waiting in (
                self._verdicts,
                self._refused,
                self._blocked,
                self._unreadable,
                self._probes,
                self._commands,
            ):
                waiting.clear()
            self.asynchronous_probing = False
            self.framebuffer_stays = False
            self.probe_seconds = 0.0
            self._locks.notify()

    def refuse(self, path_end: str, error: int, times: int = 1) -> None:
        """Refuse the next writes to paths that end so, as given or with links resolved."""
        with self._locks.lock:
            self._refused.append((path_end, error, times))

    def block(self, path_prefix: str) -> None:
        """Let writes to paths that begin so wait in the kernel, until `unblock`."""
        with self._locks.lock:
            self._blocked.add(path_prefix)

    def unblock(self, path_prefix: str) -> None:
        with self._locks.lock:
            self._blocked.discard(path_prefix)
            self._locks.notify()

    def unreadable(self, path_part: str, error: int) -> None:
        """Refuse to read files whose path holds this, as given or with links resolved.

        0 lets them be read again.
        """
        with self._locks.lock:
            if error:
                self._unreadable[path_part] = error
            else:
                self._unreadable.pop(path_part, None)

    def fail_probe(self, times: int = 1, error: int = errno.EIO) -> None:
        """Let drivers refuse the next devices that they are offered."""
        with self._locks.lock:
            self._probes += [error] * times

    def fail_command(self, program: str, status: int, output: str, times: int = 1) -> None:
        """Let the next calls of a program, named with or without its folder, end so."""
        with self._locks.lock:
            waiting = self._commands.setdefault(posixpath.basename(program), [])
            waiting += [Completed(status, output)] * times

    # ------------------------------------------- what a host asks, with its lock held

    def next(self) -> Verdict:
        """The verdict on the write or command that is being made."""
        self.count += 1
        return self._verdicts.pop(self.count, _NOTHING)

    def check_path(self, *names: str) -> None:
        """Raise what is to happen to a write to a path, given by all its names."""
        for index, (end, error, times) in enumerate(self._refused):
            if any(name.endswith(end) for name in names):
                self._refused[index : index + 1] = [(end, error, times - 1)] if times > 1 else []
                raise OSError(error, os.strerror(error), names[0])

    def check_reading(self, *names: str) -> None:
        """Raise what is to happen to a read of a path, given by all its names."""
        for part, error in self._unreadable.items():
            if any(part in name for name in names):
                raise OSError(error, os.strerror(error), names[0])

    @property
    def hinders_reading(self) -> bool:
        return bool(self._unreadable)

    def wait_while_blocked(self, *names: str) -> None:
        self._locks.wait(lambda: not self._blocks(names))

    def _blocks(self, names: tuple[str, ...]) -> bool:
        return any(name.startswith(begin) for begin in self._blocked for name in names)

    def check_probe(self) -> None:
        """Raise what a driver answers to the device that it is being offered."""
        if self._probes:
            error = self._probes.pop(0)
            raise OSError(error, os.strerror(error))

    def command(self, program: str) -> Completed | None:
        """How a call of a program ends instead of being carried out."""
        waiting = self._commands.get(posixpath.basename(program))
        return waiting.pop(0) if waiting else None
