"""Spans of time as people read them in tables."""

from __future__ import annotations

import math
from datetime import datetime, timedelta


def human_duration(elapsed: timedelta) -> str:
    """Two or three significant figures, exactly as client-go writes an age."""
    seconds = math.trunc(elapsed.total_seconds())
    if seconds < -1:
        return "<invalid>"
    minutes, hours = seconds // 60, seconds // 3600
    days, years = hours // 24, hours // (24 * 365)
    if seconds < 120:
        text = f"{max(seconds, 0)}s"
    elif minutes < 10:
        text = _two(minutes, "m", seconds % 60, "s")
    elif hours < 3:
        text = f"{minutes}m"
    elif hours < 8:
        text = _two(hours, "h", minutes % 60, "m")
    elif hours < 48:
        text = f"{hours}h"
    elif days < 8:
        text = _two(days, "d", hours % 24, "h")
    elif years < 2:
        text = f"{days}d"
    elif years < 8:
        text = _two(years, "y", days % 365, "d")
    else:
        text = f"{years}y"
    return text


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"


def age(text: str, now: datetime) -> str:
    """The time since a moment in RFC 3339 form."""
    then = moment(text)
    return "<invalid>" if then is None else human_duration(now - then)


def moment(text: object) -> datetime | None:
    """A time in RFC 3339 form; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return then if then.tzinfo else None
