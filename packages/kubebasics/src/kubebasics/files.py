"""Files that appear whole or not at all, and failures that name the file.

A file has its final permissions from the first byte on.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


class FolderError(Exception):
    """The folder cannot be used; the text says why and what to do."""


def write_atomically(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file; a crash leaves the old content or the new, never a part of either."""
    directory, name = os.path.split(os.path.abspath(path))
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=f".{name}.")  # mkstemp: 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


@contextlib.contextmanager
def naming_failures(path: str) -> Iterator[None]:
    """Turn what the system refuses in the block into a FolderError that names the file.

    A failed write names no file itself; `path` is then what is said.
    """
    try:
        yield
    except OSError as error:
        # Of a rename, the target is what a person knows.
        where = error.filename2 or error.filename or path
        raise FolderError(
            f"{os.fsdecode(where)}: {error.strerror}; correct that, or choose another --data-dir"
        ) from error
