"""Runs a program in a container of this node, by entering the container's namespaces.

The API has no part in it: a process that sees the node's processes and is root finds the container
by the cgroup of its processes, and util-linux' `nsenter` enters what its first process lives in. So
the agent needs no right to run programs in pods, which could not be limited to those of its own
node.

The number of a process can be another's a moment later. So the process is opened first, as a folder
of /proc, which stands for this process and no other; namespaces and root are opened below it; and
only then is it asked once more which container it is in. What `nsenter` gets are those descriptors.

The program runs as root of the node, with all that the agent may do, from files of the container.
So only a container that has as much itself may be entered: the caller requests a privileged one,
and one with users of its own is refused here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from laneway.core.kernel.cgroup import Container, container_of
from laneway.host.executors.bounded import FOLDERS, run_bounded
from laneway.host.port import CommandMissingError, Completed

_NAMESPACES = ("mnt", "pid", "net", "ipc", "uts", "cgroup")
_OPTIONS = {"mnt": "mount"}
"""Names of nsenter's options that differ from those in /proc."""
_FAILED = "nsenter: "
"""How what it says itself begins, as `LC_ALL` is C."""
_NOT_FOUND = 127
_FOLDER = os.O_PATH | os.O_DIRECTORY


@dataclass(frozen=True)
class Entrance:
    """What a container's first process lives in; descriptors."""

    root: int
    namespaces: Mapping[str, int]
    """Those that differ from ours."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        return (self.root, *self.namespaces.values())

    def command(self, nsenter: str, argv: Sequence[str]) -> list[str]:
        """What runs a program there."""
        options = [
            f"--{_OPTIONS.get(name, name)}=/proc/self/fd/{descriptor}"
            for name, descriptor in self.namespaces.items()
        ]
        place = f"/proc/self/fd/{self.root}"
        return [nsenter, *options, f"--root={place}", f"--wd={place}", "--", *argv]


async def run_inside(
    container: Container, argv: Sequence[str], seconds: float, *, proc: str = "/proc"
) -> Completed:
    """Run a program in a container.

    With CommandMissingError (ENOENT), EACCES and EHOSTUNREACH nothing was started. EIO: the program
    was killed, as happens when its container ends. ETIMEDOUT: it took too long and was stopped.
    """
    first = await asyncio.to_thread(_first, container, proc)
    with entrance(container, first, proc) as found:
        command = found.command(_nsenter(), argv)
        ended = await run_bounded(command, argv[0], seconds, pass_fds=found.descriptors)
    if ended.code < 0:
        raise OSError(
            errno.EIO,
            f"{argv[0]} was killed by signal {-ended.code}; whether it did its work is unknown",
        )
    if ended.code and not ended.out and ended.err.startswith(_FAILED):
        said = " ".join(ended.err.removeprefix(_FAILED).split())
        if ended.code == _NOT_FOUND:
            raise CommandMissingError(errno.ENOENT, f"{argv[0]} is not installed there: {said}")
        raise OSError(errno.EHOSTUNREACH, f"{argv[0]} cannot be started there: {said}")
    return Completed(ended.status, ended.output)


class Process(NamedTuple):
    """A process, and which one of those that had its number."""

    number: int
    started: int
    """In ticks since the node's boot."""


@contextlib.contextmanager
def entrance(container: Container, first: Process, proc: str = "/proc") -> Iterator[Entrance]:
    """Open the way into a container by its first process, for as long as the context lasts.

    Raises OSError: EHOSTUNREACH when that is not the container's any more, EACCES when the
    container must not be entered.
    """
    with contextlib.ExitStack() as stack:
        try:
            process = _opened(f"{proc}/{first.number}", _FOLDER, None, stack)
            users = os.stat("ns/user", dir_fd=process)
            namespaces = {}
            for name in _NAMESPACES:
                descriptor = _opened(f"ns/{name}", os.O_RDONLY, process, stack)
                if not os.path.samestat(os.fstat(descriptor), os.stat(f"{proc}/self/ns/{name}")):
                    namespaces[name] = descriptor
            root = _opened("root", _FOLDER, process, stack)
            same = _container(process) == container and _started(process) == first.started
        except (FileNotFoundError, ProcessLookupError):
            same = False
        if not same:
            raise _gone(container)
        if not os.path.samestat(users, os.stat(f"{proc}/self/ns/user")):
            raise PermissionError(
                errno.EACCES, "the container has a user namespace of its own (hostUsers: false)"
            )
        yield Entrance(root, namespaces)


def _first(container: Container, proc: str) -> Process:
    """A container's first process; later ones may have left its namespaces."""
    found = []
    for name in filter(str.isdecimal, os.listdir(proc)):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            process = _opened(f"{proc}/{name}", _FOLDER, None, stack)
            if _container(process) == container:
                found.append(Process(int(name), _started(process)))
    if not found:
        raise _gone(container)
    return min(found, key=lambda one: (one.started, one.number))


def _gone(container: Container) -> OSError:
    return OSError(
        errno.EHOSTUNREACH,
        f"no process of container {container.id[:12]} of pod {container.pod} runs on this node",
    )


def _opened(path: str, flags: int, folder: int | None, stack: contextlib.ExitStack) -> int:
    descriptor = os.open(path, flags | os.O_CLOEXEC, dir_fd=folder)
    stack.callback(os.close, descriptor)
    return descriptor


def _read(process: int, name: str) -> str:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=process), errors="replace") as file:
        return file.read()


def _container(process: int) -> Container | None:
    return container_of(_read(process, "cgroup"))


def _started(process: int) -> int:
    """When a process began, in ticks since boot: the 22nd field, counted after its name."""
    return int(_read(process, "stat").rpartition(")")[2].split()[19])


def _nsenter() -> str:
    for folder in FOLDERS:
        if os.access(path := f"{folder}/nsenter", os.X_OK):
            return path
    raise OSError(
        errno.EHOSTUNREACH, "nsenter is not installed where the agent runs; install util-linux"
    )
