"""Which file is whose in the kubelet's folders, and whether it still is."""

from __future__ import annotations

import hashlib
import os

from laneway.core import names

Identity = tuple[int, int, int]
"""Of a file: what no other file at the same path has."""


def endpoint(resource: str) -> str:
    """The file of the plugin for a resource: as the contract names it, or short and harmless.

    Resource names that Laneway makes are all of the first kind; a text that is no resource name
    can neither leave the folder nor be too long.
    """
    if names.is_resource_name(resource):
        return os.path.basename(names.socket_path(resource))
    return hashed_endpoint(resource)


def hashed_endpoint(resource: str) -> str:
    """A file's name that no other resource has."""
    digest = hashlib.sha256(resource.encode("utf-8", "surrogatepass")).hexdigest()
    return f"kubevirt-{digest[:32]}.sock"


def identity(path: str) -> Identity | None:
    """Tells a file from one of the same name before it; None when there is none.

    An inode's number is used again at once by some file systems, so it needs its time of change.
    """
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns
