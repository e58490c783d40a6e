"""The data directory of `laneway up`: marked with its version, owned by one process at a time.

A directory that Laneway did not make is never written to, and one of another version is refused
before anything in it is opened, so that a wrong argument or an older program damages nothing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from kubebasics.files import FolderError, naming_failures

VERSION = 1
_MARKER = "laneway.json"


class _Marker(msgspec.Struct):
    version: int


@dataclass(frozen=True)
class DataDir:
    """Where everything of one installation lies. Every path is inside `path`."""

    path: str

    @property
    def kubeconfig(self) -> str:
        return os.path.join(self.path, "kubeconfig")

    @property
    def history(self) -> str:
        """Who held which device."""
        return os.path.join(self.path, "history")

    def host_log(self, node: str) -> str:
        """The log of writes to a simulated host."""
        return os.path.join(self.path, "hosts", f"{node}.log")

    def node_state(self, node: str) -> str:
        """What the agent of a node keeps: journals, audit record, what it did to devices."""
        return os.path.join(self.path, "nodes", node)

    def kubelet(self, node: str) -> str:
        """What the kubelet of a simulated node keeps, and its sockets."""
        return os.path.join(self.path, "kubelets", node)

    def containers(self, node: str) -> str:
        """The file of what runs on a simulated node."""
        return os.path.join(self.path, "kubelets", node, "containers.json")


@contextlib.contextmanager
def open_data_dir(path: str) -> Iterator[DataDir]:
    """Make or take over the directory and hold it until the block ends. Raises FolderError."""
    path = os.path.abspath(path)
    with contextlib.ExitStack() as stack:
        with naming_failures(path):
            if os.path.lexists(path) and not os.path.isdir(path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
            os.makedirs(path, mode=0o700, exist_ok=True)
            _check(path)
            lock = os.open(os.path.join(path, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            stack.callback(os.close, lock)
            _take(lock, path)
            _mark(path)
            os.makedirs(os.path.join(path, "hosts"), mode=0o700, exist_ok=True)
        yield DataDir(path)


def _check(path: str) -> None:
    names = set(os.listdir(path)) - {"lock", f"{_MARKER}.new"}
    marker = os.path.join(path, _MARKER)
    if _MARKER not in names:
        if names:
            raise FolderError(
                f"{path} is not empty and was not made by laneway; "
                "choose an empty or new directory with --data-dir"
            )
        return
    try:
        with open(marker, "rb") as file:
            version = msgspec.json.decode(file.read(), type=_Marker).version
    except msgspec.MsgspecError as error:
        raise FolderError(
            f"{marker} is damaged ({error}); restore it, or choose another --data-dir"
        ) from error
    if version != VERSION:
        raise FolderError(
            f"{path} is of data version {version}, this laneway reads version {VERSION}; "
            "use the laneway that made it, or choose another --data-dir"
        )


def _take(lock: int, path: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise FolderError(
            f"{path} is in use by another laneway (process {holder}); "
            "stop that one, or choose another --data-dir"
        ) from None
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


def _mark(path: str) -> None:
    marker = os.path.join(path, _MARKER)
    if os.path.exists(marker):
        return
    partial = f"{marker}.new"
    with open(partial, "wb") as file:
        file.write(msgspec.json.encode(_Marker(VERSION)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, marker)
