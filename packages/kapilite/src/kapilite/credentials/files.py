"""Files that appear whole or not at all, with their final permissions from the first byte on."""

from __future__ import annotations

import os
import tempfile


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
