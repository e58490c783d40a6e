"""What a process has in memory; measured processes import this, and nothing for it."""

from __future__ import annotations

import os


def resident() -> float:
    """Memory of this process in MB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
