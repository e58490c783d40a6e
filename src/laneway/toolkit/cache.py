"""The packages on the node, each in a folder named by its hash.

A package is in its folder under its final name only after its hash was checked, so that no restart
takes a part for the whole. It is checked again whenever it is used: the copy that is run is the
very one that was hashed, in a folder that only this container has.

Modules that were built and loaded are kept next to their package, per kernel. So a node that boots,
or goes back to a former driver, needs neither headers nor minutes of compiling.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Collection
from typing import BinaryIO

_HASH = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1024 * 1024


class Cache:
    """The folders below `root`."""

    def __init__(self, root: str) -> None:
        self._root = root

    def folder(self, sha256: str) -> str:
        """The folder of a package, which is made."""
        if not _HASH.fullmatch(sha256):
            raise ValueError("not a hash")
        path = os.path.join(self._root, sha256)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def package(self, sha256: str) -> str:
        return os.path.join(self.folder(sha256), "package.run")

    def part(self, sha256: str) -> str:
        return os.path.join(self.folder(sha256), "package.part")

    def has(self, sha256: str) -> bool:
        return os.path.isfile(os.path.join(self._root, sha256, "package.run"))

    def built(self, sha256: str, release: str) -> str:
        """Where the modules are kept that were built from a package for one kernel."""
        return os.path.join(self.folder(sha256), f"modules-{release}")

    def keep_built(self, sha256: str, release: str, folder: str) -> None:
        """Keep the modules in a folder: all of them, or none if this is interrupted."""
        kept = self.built(sha256, release)
        shutil.rmtree(kept, ignore_errors=True)
        shutil.rmtree(f"{kept}.new", ignore_errors=True)
        shutil.copytree(folder, f"{kept}.new")
        os.sync()
        os.rename(f"{kept}.new", kept)

    def discard(self, sha256: str) -> None:
        shutil.rmtree(self.folder(sha256), ignore_errors=True)

    def keep_only(self, hashes: Collection[str]) -> list[str]:
        """Remove all other packages; their hashes."""
        removed = []
        for name in sorted(os.listdir(self._root)):
            if _HASH.fullmatch(name) and name not in hashes:
                shutil.rmtree(os.path.join(self._root, name), ignore_errors=True)
                removed.append(name)
        return removed


def hash_of(path: str) -> tuple[str, int]:
    """SHA-256 and size of a file."""
    with open(path, "rb") as file:
        return _hashed(file)


def private_copy(path: str, target: str) -> str:
    """Copy a file for this container alone; the hash is that of the copy's own bytes."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o500)
    with open(path, "rb") as source, open(fd, "wb") as copy:
        return _hashed(source, copy)[0]


def _hashed(source: BinaryIO, copy: BinaryIO | None = None) -> tuple[str, int]:
    found, size = hashlib.sha256(), 0
    while chunk := source.read(_CHUNK):
        found.update(chunk)
        size += len(chunk)
        if copy:
            copy.write(chunk)
    return found.hexdigest(), size
