"""How many files this process may have open at once.

The soft limit that a process finds is a low one, often 256 or 1024, for the sake of programs that
use select(2); who does not may raise it to the hard one.
"""

from __future__ import annotations

import resource

_ENOUGH = 1 << 16
"""No more than that, because programs that this process starts inherit it, and some close as many
files as they might have."""


def raise_limit() -> int:
    """Raise the soft limit as far as it makes sense; gives it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _ENOUGH if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
