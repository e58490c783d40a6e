"""The host port on a directory of a running system: `/` on a node, a copied tree in tests.

Below another root than `/`, links are followed as if that root were `/`: an absolute link or a
`..` never leads outside. A directory once found to be no link is not examined again, so a read
costs one open there too; sysfs never turns a directory into a link.
"""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

from laneway.core.inventory import InterfaceAddress
from laneway.core.kernel.uevent import Uevent
from laneway.host import files
from laneway.host.addresses import node_addresses
from laneway.host.kernel_log import kernel_log
from laneway.host.uevents import kernel_uevents
from laneway.host.writer import Writers
from laneway.host.xids import KERNEL_LOG

_CHUNK = 64 * 1024
_PAGE = 4096
_MAX_SIZE = 16 * 1024 * 1024
"""No file that Laneway reads comes near; a link to an endless device must not fill memory."""
_MAX_LINKS = 40
"""As the kernel: more links than this in one path are a loop."""


class RealHost:
    """`Host` on the files below `root`."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root).rstrip("/")
        self._directories = {"/"}
        self._writers = Writers()

    def read(self, path: str) -> bytes:
        fd = self._open(path, os.O_RDONLY)
        try:
            content = os.read(fd, _CHUNK)
            # sysfs answers a value of up to a page at once; /proc and the rest may do it by pieces.
            if len(content) < _PAGE and path.startswith("/sys/"):
                return content
            pieces = [content]
            size = len(content)
            while pieces[-1]:
                pieces.append(os.read(fd, _CHUNK))
                size += len(pieces[-1])
                if size > _MAX_SIZE:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return b"".join(pieces)
        finally:
            os.close(fd)

    def read_start(self, path: str, size: int) -> bytes:
        fd = self._open(path, os.O_RDONLY)
        try:
            return os.read(fd, size)
        finally:
            os.close(fd)

    def names(self, path: str) -> list[str]:
        return os.listdir(self._locate(path))

    def entries(self, path: str) -> dict[str, bool]:
        # sysfs tells the kinds with the names, so that nothing is asked of the entries themselves.
        with os.scandir(self._locate(path)) as found:
            return {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}

    def readlink(self, path: str) -> str:
        if not self._root:
            return os.readlink(path)
        parent, _, name = path.rpartition("/")
        return os.readlink(f"{self._locate(parent)}/{name}")

    def resolve(self, path: str) -> str:
        if self._root:
            return self._locate(path)[len(self._root) :] or "/"
        return os.path.realpath(path, strict=True)

    def exists(self, path: str) -> bool:
        try:
            return os.path.exists(self._locate(path))
        except OSError:
            return False

    def owner(self, path: str) -> tuple[int, int]:
        status = os.stat(self._locate(path))
        return status.st_uid, status.st_gid

    def set_owner(self, path: str, uid: int, gid: int) -> None:
        # What a link leads to could be anything by the time of the change.
        parent, _, name = path.rpartition("/")
        place = os.open(self._locate(parent), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.chown(name, uid, gid, dir_fd=place, follow_symlinks=False)
        finally:
            os.close(place)

    def write(self, path: str, data: str) -> None:
        raw = data.encode()
        try:
            fd = self._open(path, os.O_WRONLY)
            try:
                complete = os.write(fd, raw) == len(raw)
            finally:
                os.close(fd)
        except OSError as error:
            # The system call knows a descriptor only; people need the attribute.
            raise OSError(error.errno, error.strerror, path) from error
        if not complete:
            raise OSError(errno.EIO, "the kernel took only a part of the value", path)

    def replace(self, path: str, content: str | None) -> None:
        try:
            files.replace(self._target(path), content)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error

    async def write_within(self, path: str, data: str, seconds: float) -> None:
        flags = os.O_WRONLY | os.O_CLOEXEC | (os.O_NOFOLLOW if self._root else 0)
        try:
            await self._writers.write(self._locate(path), data.encode(), flags, seconds)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from error

    def addresses(self) -> list[InterfaceAddress]:
        if copy := self._copy():
            raise FileNotFoundError(errno.ENOENT, copy)
        return node_addresses()

    def uevents(self) -> AbstractAsyncContextManager[AsyncIterator[Uevent]]:
        return kernel_uevents(self._copy())

    def kernel_messages(self) -> AbstractAsyncContextManager[AsyncIterator[str]]:
        return kernel_log(KERNEL_LOG, self._copy())

    def _copy(self) -> str:
        """Why the running kernel has nothing to say of these files."""
        return f"{self._root} is a copy, not this machine's own root" if self._root else ""

    def _target(self, path: str) -> str:
        """Where a file is, or will be, with every link resolved: a link to a file stays one."""
        try:
            return os.path.realpath(self._locate(path), strict=True)
        except FileNotFoundError:
            folder, _, name = path.rpartition("/")
            above, _, last = folder.rpartition("/")
            try:
                return f"{self._locate(folder)}/{name}"
            except FileNotFoundError:
                return f"{self._locate(above or '/')}/{last}/{name}"

    def _open(self, path: str, access: int) -> int:
        if not self._root:
            return os.open(path, access | os.O_CLOEXEC)
        parent, _, name = path.rpartition("/")
        if parent in self._directories and name not in ("", ".", ".."):
            try:
                return os.open(self._root + path, access | os.O_CLOEXEC | os.O_NOFOLLOW)
            except OSError as error:
                if error.errno != errno.ELOOP:
                    raise
        return os.open(self._locate(path), access | os.O_CLOEXEC | os.O_NOFOLLOW)

    def _locate(self, path: str) -> str:
        """The path on this machine, every link below the root resolved inside it."""
        if not self._root:
            return path
        if path in self._directories:
            return self._root + path
        pending = path.split("/")[::-1]
        found = ""
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                found = found.rpartition("/")[0]
            if part in ("", ".", ".."):
                continue
            candidate = f"{found}/{part}"
            if candidate in self._directories:
                found = candidate
                continue
            target = self._link_at(candidate, is_last=not pending)
            if target is None:
                found = candidate
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            found = "" if target.startswith("/") else found
            pending += target.split("/")[::-1]
        return self._root + (found or "/")

    def _link_at(self, candidate: str, *, is_last: bool) -> str | None:
        """Target of a link, None for anything else that exists."""
        try:
            return os.readlink(self._root + candidate)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        if not is_last or os.path.isdir(self._root + candidate):
            self._directories.add(candidate)
        return None
