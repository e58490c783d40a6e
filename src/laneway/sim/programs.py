"""Programs that a simulated host can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from laneway.core.programs import Completed

__all__ = ["Completed", "Program"]


class Program(NamedTuple):
    """What stands in for a program. Called with the host's lock held; may wait (Locks)."""

    run: Callable[[Sequence[str]], tuple[int, str]]
    """From an argument vector, the program's name first, to exit status and output."""
    changes: Callable[[Sequence[str]], bool]
    """Whether a call may change the machine: only such calls are counted and recorded."""
