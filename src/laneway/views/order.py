"""The order in which a person expects names."""

from __future__ import annotations

import re


def natural(text: str) -> list[tuple[int, str]]:
    """Sorting key by which `A2-16Q` follows `A2-8Q`."""
    parts = re.split(r"([0-9]{1,18})", text)
    return [(int(part), "") if n % 2 else (0, part) for n, part in enumerate(parts)]
