"""Spans of time as people read them in tables."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"([.,](?P<fraction>[0-9]+))?(Z|(?P<sign>[+-])(?P<hours>[0-9]{2}):(?P<minutes>[0-9]{2}))"
)
_FIRST = datetime(1, 1, 1, tzinfo=UTC)
"""Go's zero time, which it takes for none."""
_LONGEST = timedelta(microseconds=2**63 // 1000)
"""No span of time is longer in Go."""


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
    """The time since a moment in RFC 3339 form, as Go reads it."""
    if text in ("", "null"):
        return "<unknown>"
    match = _MOMENT.fullmatch(text)
    if match is None or int(match["hours"] or 0) > 24 or int(match["minutes"] or 0) > 60:
        return "<invalid>"
    year, month, day, hour, minute, second = (int(match[number]) for number in range(1, 7))
    leap_year = 4  # a day of year 0 exists when it does in this one
    try:
        then = datetime(year or leap_year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return "<invalid>"
    offset = timedelta(hours=int(match["hours"] or 0), minutes=int(match["minutes"] or 0))
    since = then - _FIRST + (offset if match["sign"] == "-" else -offset)
    since -= timedelta(days=366 + 3 * 365) if not year else timedelta()
    fraction = int((match["fraction"] or "0")[:6].ljust(6, "0"))
    if not since and not fraction:
        return "<unknown>"
    return human_duration(min(now - _FIRST - since - timedelta(microseconds=fraction), _LONGEST))


def moment(text: object) -> datetime | None:
    """A time in RFC 3339 form; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        then = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return None
    return then if then.tzinfo else None
