"""Small files that survive a crash at any moment: complete as before, or complete as after."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TypeVar

import msgspec

T = TypeVar("T")


_ADVICE = {
    errno.ENOSPC: "free some space on that file system (df shows it), then try again",
    errno.EDQUOT: "free some of the quota there, then try again",
    errno.EROFS: "mount that file system for writing, then try again",
}


class StateError(Exception):
    """What Laneway remembers of a node cannot be read or written; the text says what to do."""


def append(path: str, line: bytes, *, create: bool = False, sync: bool = True) -> None:
    """Add one line: whole, or not at all unless the machine itself dies. Raises OSError.

    With `sync` it is on the disk when this returns.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | (os.O_CREAT if create else 0), 0o600)
    except OSError as error:
        raise advised(error, path) from None
    try:
        _add(fd, line + b"\n", sync=sync)
    except OSError as error:
        raise advised(error, path) from None
    finally:
        os.close(fd)


def advised(error: OSError, path: str) -> OSError:
    """The same error with the file that could not be written and, where it is known, what helps."""
    advice = _ADVICE.get(error.errno or 0, "")
    return OSError(error.errno, f"{error.strerror}{advice and f'; {advice}'}", path)


def _add(fd: int, line: bytes, *, sync: bool) -> None:
    size = os.fstat(fd).st_size
    if os.write(fd, line) != len(line):
        os.ftruncate(fd, size)  # a part of a line would make one with the next
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if sync:
        os.fdatasync(fd)


def sync_folder(path: str) -> None:
    """Have the names in a folder on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(path: str, content: bytes) -> None:
    """Write a whole file."""
    partial = f"{path}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(partial, flags, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(partial)  # a part of it would take what little room there is
        raise advised(error, path) from None
    sync_folder(os.path.dirname(path))


def read(path: str, kind: type[T]) -> T | None:
    """A file of one JSON value, None when there is none. Raises StateError when it is damaged."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise StateError(
            f"{path} is damaged ({error}). Check the devices that Laneway changed on this node "
            "(audit.jsonl in the same folder lists them), then remove that file"
        ) from error


def salvaged(path: str, kind: type[T], nothing: T) -> T:
    """What of a damaged file still makes sense, for a caller that only reads."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return nothing
