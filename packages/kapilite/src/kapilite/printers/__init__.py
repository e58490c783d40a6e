"""Cells of built-in kinds that no path into the object can express.

The texts are those that a cluster prints, because people know them by sight: a node without a
Ready condition is `Unknown`, not blank. Every printer is total: objects that were stored by an
older version, or in another shape, leave a cell empty and never break a table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapilite.printers import access, cluster, events, network, pods, storage, workloads
from kapilite.printers.parts import age

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kapilite.printers.parts import Cell

CELLS: Mapping[tuple[str, str], Cell] = {
    **access.CELLS,
    **cluster.CELLS,
    **events.CELLS,
    **network.CELLS,
    **pods.CELLS,
    **storage.CELLS,
    **workloads.CELLS,
}
"""By resource and column; given the object and the time."""

__all__ = ["CELLS", "age"]
