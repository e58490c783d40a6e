"""Drawings that tabs of one user share: many may show the same page.

A drawing holds until something changes that its page is drawn from, so of any number of tabs one
draws it and the others take it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from laneway.web.stream.tab import Concerns

_MOST = 200


class Drawn(NamedTuple):
    """The live blocks of a page by name, and which changes they show."""

    blocks: Mapping[str, str]
    concerns: Concerns | None


class Shared:
    """The latest drawings, by page and user."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, tuple[str, Drawn]] = OrderedDict()

    def get(self, page: Hashable, version: str, draw: Callable[[], Drawn]) -> Drawn:
        """The drawing of a page as of a version; drawn where there is none."""
        kept = self._kept.get(page)
        if kept is None or kept[0] != version:
            kept = self._kept[page] = version, draw()
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        self._kept.move_to_end(page)
        return kept[1]
