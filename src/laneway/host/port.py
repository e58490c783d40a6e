"""The host port: the only way to a node's hardware.

The same code above it serves a real host, a guest of the kernel rig and a simulated host, because
all any of it may do is what is written here. Paths are absolute text as on the node (`/sys/...`)
whatever directory the port is rooted at. Every failure is the OSError, with the errno, that the
kernel gives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from laneway.core.inventory import InterfaceAddress
from laneway.core.kernel.uevent import Uevent
from laneway.core.programs import CommandMissingError, Completed

__all__ = [
    "CommandMissingError",
    "Completed",
    "Executor",
    "Host",
    "KernelLogUnavailableError",
    "UeventsUnavailableError",
]


class UeventsUnavailableError(Exception):
    """Kernel events cannot be received here; the text is the reason alone."""


class KernelLogUnavailableError(Exception):
    """The kernel's log cannot be read here; the text is the reason alone."""


class Host(Protocol):
    """One node's files and events."""

    def read(self, path: str) -> bytes:
        """Whole content of a file. sysfs and procfs values end with a newline."""

    def read_start(self, path: str, size: int) -> bytes:
        """At most so many bytes from the start of a file, and none asked of the kernel beyond."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, unsorted."""

    def entries(self, path: str) -> dict[str, bool]:
        """Names in a directory, each with whether it is a directory itself, not a link to one."""

    def readlink(self, path: str) -> str:
        """Target of a symbolic link, as stored."""

    def resolve(self, path: str) -> str:
        """The path with every link resolved; raises FileNotFoundError when it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether the path, links followed, is there."""

    def owner(self, path: str) -> tuple[int, int]:
        """User and group of a file."""

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        """Give a file, never what a link points to, to a user and group."""

    def write(self, path: str, data: str) -> None:
        """Write an attribute: one open, one write, so that the kernel acts exactly once."""

    def replace(self, path: str, content: str | None) -> None:
        """Write a file of a disk as a whole; None removes it.

        Whatever ends the process or the node, the file is as before or as after. It is on the disk
        when this returns, with the owner and mode that it had. A missing folder is made.
        """

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        """`write`, left behind with ETIMEDOUT when the kernel does not come back in time.

        A write may wait in the kernel for as long as a VM holds the device, where not even SIGKILL
        ends it; it must hold up neither this process's work nor its end.
        """

    def addresses(self) -> list[InterfaceAddress]:
        """Every address of every interface of the node; raises OSError where it cannot be asked."""

    def uevents(self) -> AbstractAsyncContextManager[AsyncIterator[Uevent]]:
        """Subscribe to kernel events; none is missed between entering and iterating.

        Raises UeventsUnavailableError on entry. Yields OVERFLOW when events were lost.
        """

    def kernel_messages(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        """Read the kernel's log: what it still has of this boot, oldest first, then what comes.

        Raises KernelLogUnavailableError, also later. Yields CAUGHT_UP whenever nothing is left
        to read.
        """


class Executor(Protocol):
    """Where the driver's programs run: on the node itself, or in the pod that holds the driver."""

    async def has(self, program: str) -> bool:
        """Whether a program can be run."""

    async def run(self, argv: Sequence[str], seconds: float) -> Completed:
        """Run a program by its argument vector; no shell ever sees it.

        Raises CommandMissingError, TimeoutError once it was ended for taking longer, and OSError
        when it cannot be started or reached.
        """
