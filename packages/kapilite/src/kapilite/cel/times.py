"""The functions of the CEL specification that read a part of a time or of a duration."""

from __future__ import annotations

import re
from datetime import timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from kapilite.cel.functions import declare
from kapilite.cel.standard import truncated
from kapilite.cel.values import SECOND, CelError, Timestamp

_FIELDS = {
    "getFullYear": lambda time: time.year,
    "getMonth": lambda time: time.month - 1,
    "getDayOfYear": lambda time: time.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda time: time.day - 1,
    "getDate": lambda time: time.day,
    "getDayOfWeek": lambda time: time.isoweekday() % 7,
    "getHours": lambda time: time.hour,
    "getMinutes": lambda time: time.minute,
    "getSeconds": lambda time: time.second,
    "getMilliseconds": lambda time: time.microsecond // 1000,
}
_CYCLE = 400
"""After so many years the calendar begins again."""


def _getter(name: str, read: Any) -> None:
    @declare(f"timestamp.{name}() int", f"timestamp.{name}(string) int")
    def _get(time: Timestamp, zone: str = "UTC") -> int:
        moment = time.utc
        # Python has no year before the first and after the last: they are read in another cycle.
        shift = {1: _CYCLE, 9999: -_CYCLE}.get(moment.year, 0)
        try:
            found = moment.replace(year=moment.year + shift).astimezone(_zone(zone))
        except (ValueError, KeyError, OSError) as error:
            raise CelError(f"unknown time zone {zone}") from error
        return int(read(found)) - (shift if name == "getFullYear" else 0)


_OFFSET = re.compile(r"([+-]?)0*([0-9]{1,2}):[+]?0*([0-9]{1,2})", re.ASCII)


def _zone(name: str) -> timezone | ZoneInfo:
    if ":" not in name:
        return ZoneInfo(name) if name not in ("", "Local") else ZoneInfo("UTC")
    match = _OFFSET.fullmatch(name)
    if match is None or int(match[2]) > 23 or int(match[3]) > 59:
        raise ValueError(name)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)


for _field, _read in _FIELDS.items():
    _getter(_field, _read)

for _field, _unit in (
    ("Hours", 3600 * SECOND),
    ("Minutes", 60 * SECOND),
    ("Seconds", SECOND),
    ("Milliseconds", SECOND // 1000),
):
    declare(f"duration.get{_field}() int")(lambda value, unit=_unit: truncated(value.ns, unit))
