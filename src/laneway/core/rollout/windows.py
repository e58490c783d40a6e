"""Times of the week in which nodes may begin to reboot.

A window is told in the wall clock of its time zone, as people plan maintenance, so it may be an
hour longer or shorter where the clock is changed within it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, time, timedelta
from typing import NamedTuple

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class Window(NamedTuple):
    """Begins at a time of some days and lasts for at most a day."""

    days: tuple[str, ...]
    """Of `DAYS`; empty: all."""
    start: time
    minutes: int
    zone: str = ""
    """By name, for people; empty: UTC."""

    def is_open(self, local: datetime) -> bool:
        """Whether it is open at a time of its zone's wall clock."""
        # One that began yesterday may go on after midnight.
        return any(self._covers(local, back) for back in (0, 1))

    def _covers(self, local: datetime, days_back: int) -> bool:
        day = local - timedelta(days=days_back)
        if self.days and DAYS[day.weekday()] not in self.days:
            return False
        begin = day.replace(hour=self.start.hour, minute=self.start.minute, second=0, microsecond=0)
        return begin <= local < begin + timedelta(minutes=self.minutes)

    @property
    def words(self) -> str:
        """In words, `Sat, Sun from 22:00 UTC for 240 minutes`."""
        days = ", ".join(self.days) or "every day"
        return f"{days} from {self.start:%H:%M} {self.zone or 'UTC'} for {self.minutes} minutes"


def words(windows: Iterable[Window]) -> str:
    """Windows in one line."""
    return "; ".join(window.words for window in windows)
