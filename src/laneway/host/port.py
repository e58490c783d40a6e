"""The host port: the only way to a node's hardware.

The same code above it serves a real host, a guest of the kernel rig and a simulated host, because
all any of it may do is what is written here. Paths are absolute text as on the node (`/sys/...`)
whatever directory the port is rooted at. Every failure is the OSError, with the errno, that the
kernel gives.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from laneway.core.uevent import Uevent


class UeventsUnavailableError(Exception):
    """Kernel events cannot be received here; the text is the reason alone."""


class Host(Protocol):
    """One node's files and events."""

    def read(self, path: str) -> bytes:
        """Whole content of a file. sysfs and procfs values end with a newline."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, unsorted."""

    def readlink(self, path: str) -> str:
        """Target of a symbolic link, as stored."""

    def resolve(self, path: str) -> str:
        """The path with every link resolved; raises FileNotFoundError when it does not exist."""

    def exists(self, path: str) -> bool:
        """Whether the path, links followed, is there."""

    def write(self, path: str, data: str) -> None:
        """Write an attribute: one open, one write, so that the kernel acts exactly once."""

    def uevents(self) -> AbstractAsyncContextManager[AsyncIterator[Uevent]]:
        """Subscribe to kernel events; none is missed between entering and iterating.

        Raises UeventsUnavailableError on entry. Yields OVERFLOW when events were lost.
        """
