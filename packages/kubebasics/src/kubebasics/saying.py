"""What a server prints for people while it serves.

A server is there for its clients: that the reader of its output has gone (`serve | head -1`) is no
reason to stop, nor to print an error. Output that cannot be written for another reason is an error
that names it.
"""

from __future__ import annotations

import os
import sys


def say(text: str) -> None:
    """Print a line. Raises OSError about standard output."""
    if sys.stdout is None:  # closed by the parent
        return
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except OSError as error:
        mute()
        if not isinstance(error, BrokenPipeError):
            raise OSError(error.errno, error.strerror, "standard output") from error


def mute() -> None:
    """Drop what standard output could not write, which Python would try again as it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
