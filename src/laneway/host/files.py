"""Files of a node's system, replaced as a whole: as before or as after, whatever happens.

The new content is written next to the file, is on the disk before it takes the file's name, and
takes over its owner, mode and label. A name that begins with a dot and has another ending is read
by nothing that reads a folder of configuration.
"""

from __future__ import annotations

import contextlib
import os
import stat

from laneway.host.plans.files import sync_folder

_MODE = 0o644
_LABEL = "security.selinux"


def replace(path: str, content: str | None) -> None:
    """Write a file, or remove it (None). Raises OSError."""
    folder, name = os.path.split(path)
    if content is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
            sync_folder(folder)
        return
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, 0o755)
        sync_folder(os.path.dirname(folder))
    partial = os.path.join(folder, f".{name}.laneway-new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        with open(os.open(partial, flags, 0o600), "wb") as file:
            _take_over(path, file.fileno())
            file.write(content.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise
    sync_folder(folder)


def _take_over(path: str, new: int) -> None:
    """Owner, mode and label of the file that is replaced."""
    try:
        old = os.stat(path)
    except FileNotFoundError:
        os.fchmod(new, _MODE)
        return
    made = os.fstat(new)
    if (old.st_uid, old.st_gid) != (made.st_uid, made.st_gid):
        os.fchown(new, old.st_uid, old.st_gid)
    os.fchmod(new, stat.S_IMODE(old.st_mode))
    with contextlib.suppress(OSError):  # a file system, or a kernel, without labels
        os.setxattr(new, _LABEL, os.getxattr(path, _LABEL))
