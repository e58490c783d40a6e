"""What NVIDIA's management library answers to a refused request.

`nvidia-smi` prints the words and exits with the number.
"""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """`nvmlReturn_t`, as far as a simulated GPU refuses anything."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NOT_FOUND = 6
    IN_USE = 19
    INSUFFICIENT_RESOURCES = 23

    @property
    def words(self) -> str:
        return _WORDS[self]


_WORDS = {
    Status.INVALID_ARGUMENT: "Invalid Argument",
    Status.NOT_SUPPORTED: "Not Supported",
    Status.NOT_FOUND: "Not Found",
    Status.IN_USE: "In use by another client",
    Status.INSUFFICIENT_RESOURCES: "Insufficient Resources",
}


class NvmlError(Exception):
    """A request that the driver refused."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.words)
        self.status = status
