"""What a program printed, bounded and fit to be shown.

The end is kept, because that is where programs say why they failed, and the text says that its
beginning was left out. Terminal sequences and every character that is not printable go, so that a
program cannot write to the terminal, or between the lines of the log, of its reads it.
"""

from __future__ import annotations

import re

LIMIT = 512 * 1024
"""Bytes kept of each stream: more than `nvidia-smi` prints of 128 vGPUs."""
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.?)", re.DOTALL)
"""What a terminal obeys: colours and movements, titles, and the short ones."""


class Tail:
    """The last bytes of a stream of any length."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._size = 0

    def add(self, data: bytes) -> None:
        self._size += len(data)
        self._kept += data[-self._limit :]
        # Trimmed now and then, not at every piece: that would copy the whole each time.
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]

    def text(self) -> str:
        """The end of the stream as clean text, after a line that tells what is missing."""
        kept = bytes(self._kept[-self._limit :])
        left_out = self._size - len(kept)
        text = clean(kept)
        return f"[the first {left_out} bytes are left out]\n{text}" if left_out else text


def clean(data: bytes) -> str:
    """Bytes as text of printable characters, tabs and newlines."""
    text = _SEQUENCE.sub("", data.decode("utf-8", "replace"))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text  # So is nearly all output, and some is long.
    return "".join(char for char in text if char.isprintable() or char in "\t\n")


def joined(out: str, err: str) -> str:
    """Standard output, then standard error from a line of its own."""
    return f"{out}\n{err}" if out and err and not out.endswith("\n") else out + err
