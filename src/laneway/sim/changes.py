"""What was done to a simulated host, so that it can be done again."""

from __future__ import annotations

import msgspec


class Change(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A write, a change of owner, a file or a command: what it was, and how it ended."""

    path: str = ""
    data: str = ""
    """What was written to the path."""
    errno: int = 0
    """How a write ended. A refused one is kept because it may have changed something all the
    same."""
    owner: tuple[int, int] | None = None
    """User and group that the path was given to."""
    content: str | None = None
    """What a file was replaced with; see `removed`."""
    removed: bool = False
    """Whether the file was removed."""
    argv: tuple[str, ...] = ()
    status: int = 0
    """How the command ended."""

    def __post_init__(self) -> None:
        file = bool(self.path) and (self.content is not None or self.removed)
        kinds = (bool(self.path and self.data), self.owner is not None, bool(self.argv), file)
        if sum(kinds) != 1:
            raise ValueError("one of a write, a change of owner, a file and a command")
