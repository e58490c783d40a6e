"""What a process with large caches, and with nothing else in it, tells the garbage collector."""

from __future__ import annotations

import gc

_YOUNG = 20_000
"""So many new objects are looked through together; Python's 700 are those of two cached ones."""


def expect_many_objects() -> None:
    """Look for garbage less often: filling a cache otherwise takes a third longer for it."""
    gc.set_threshold(_YOUNG, 10, 10)


def spare_the_collector() -> None:
    """Never look through what there is by now for garbage again.

    The objects of a large cluster take the collector most of a second, in which nothing else runs.
    They refer to nothing that refers back to them, so they go without it when replaced.
    """
    gc.collect()
    gc.freeze()
