"""Results that are kept as long as they are asked of the same object.

An inventory is immutable, and most of its parts are the same objects from one inventory to the
next, so what follows from such a part holds as long as the part itself is there. Only the last
result is kept: a process has one host, and where it has more this costs no more than it saves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")


def remembered(function: Callable[[A], R]) -> Callable[[A], R]:
    """A pure function of something immutable, which works nothing out twice in a row.

    Its results are shared by all callers, so their types should be read-only.
    """
    # One reference, because threads ask as well.
    last: list[tuple[A, R]] = []

    def ask(asked: A) -> R:
        for argument, result in last:
            if argument is asked:
                return result
        result = function(asked)
        last[:] = [(asked, result)]
        return result

    return ask
