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

VERSION = 1
_MARKER = "laneway.json"


class DataDirError(Exception):
    """The directory cannot be used; the text says why and what to do."""


class _Marker(msgspec.Struct):
    version: int


@dataclass(frozen=True)
class DataDir:
    """Where everything of one installation lies. Every path is inside `path`."""

    path: str

    @property
    def database(self) -> str:
        return os.path.join(self.path, "state.db")

    @property
    def kubeconfig(self) -> str:
        return os.path.join(self.path, "kubeconfig")

    @property
    def pki(self) -> str:
        return os.path.join(self.path, "pki")

    @property
    def token(self) -> str:
        return os.path.join(self.path, "token")

    @property
    def signing_key(self) -> str:
        """The key by which the tokens of service accounts are signed."""
        return os.path.join(self.path, "pki", "service-accounts.key")

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
    """Make or take over the directory and hold it until the block ends. Raises DataDirError."""
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


@contextlib.contextmanager
def naming_failures(path: str) -> Iterator[None]:
    """Turn what the system refuses in the block into a DataDirError that names the file.

    A failed write names no file itself; `path` is then what is said.
    """
    try:
        yield
    except OSError as error:
        # Of a rename, the target is what a person knows.
        where = error.filename2 or error.filename or path
        raise DataDirError(
            f"{os.fsdecode(where)}: {error.strerror}; correct that, or choose another --data-dir"
        ) from error


def _check(path: str) -> None:
    names = set(os.listdir(path)) - {"lock", f"{_MARKER}.new"}
    marker = os.path.join(path, _MARKER)
    if _MARKER not in names:
        if names:
            raise DataDirError(
                f"{path} is not empty and was not made by laneway; "
                "choose an empty or new directory with --data-dir"
            )
        return
    try:
        with open(marker, "rb") as file:
            version = msgspec.json.decode(file.read(), type=_Marker).version
    except msgspec.MsgspecError as error:
        raise DataDirError(
            f"{marker} is damaged ({error}); restore it, or choose another --data-dir"
        ) from error
    if version != VERSION:
        raise DataDirError(
            f"{path} is of data version {version}, this laneway reads version {VERSION}; "
            "use the laneway that made it, or choose another --data-dir"
        )


def _take(lock: int, path: str) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        raise DataDirError(
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
