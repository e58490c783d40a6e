"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def timestamp(time: datetime) -> str:
    """A time in UTC, to the second."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
