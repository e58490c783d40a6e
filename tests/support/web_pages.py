"""Pages of the interface as a reader sees them."""

from __future__ import annotations

import re
from html import unescape

_MARKS = re.compile(r"<(noscript|select)\b.*?</\1>|<[^>]+>", re.DOTALL)


def text_of(page: str) -> str:
    """What a page says, without its marks and the choices of its filters; dashes are hyphens."""
    return " ".join(unescape(_MARKS.sub(" ", page)).split()).replace("\N{EN DASH}", "-")
