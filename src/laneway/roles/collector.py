"""What a process with large caches, and with nothing else in it, tells the garbage collector."""

from __future__ import annotations

import gc


def spare_the_collector() -> None:
    """Never look through what there is by now for garbage again.

    The objects of a large cluster take the collector most of a second, in which nothing else runs.
    They refer to nothing that refers back to them, so they go without it when replaced.
    """
    gc.collect()
    gc.freeze()
