"""Unix sockets in folders whose path may have any length.

The kernel takes at most 107 bytes for the path of a socket, which a test's folder or a data
directory easily exceeds. So the folder is opened and the socket is named through it, as
`/proc/self/fd/N/NAME`: only the name counts then.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

KUBELET = "kubelet.sock"
"""The kubelet's own socket, in each of its folders."""


@contextmanager
def within(folder: str, name: str) -> Iterator[str]:
    """A path of the file that is short enough for a socket, as long as the block lasts.

    Raises OSError where there is no such folder.
    """
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{opened}/{name}"
    finally:
        os.close(opened)


def listen(folder: str, name: str) -> socket.socket:
    """A listening socket at this place; one that a killed process left there gives way."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        with within(folder, name) as path:
            with suppress(FileNotFoundError):
                os.unlink(path)
            listener.bind(path)
        listener.listen()
    except BaseException:
        listener.close()
        raise
    return listener
