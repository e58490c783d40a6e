"""Events, in the names of both groups that serve them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kapilite.printers import durations
from kapilite.printers.parts import UNKNOWN, Cell, Object, get, number, text

if TYPE_CHECKING:
    from datetime import datetime


def _either(event: Object, *names: str) -> Any:
    return next((found for name in names if (found := get(event, name)) is not None), None)


def about(event: Object, _: datetime) -> str:
    """`vgpudevice/node1-000008004`, as kubectl's arguments name an object."""
    found = _either(event, "involvedObject", "regarding")
    kind, name = text(found, "kind").lower(), text(found, "name")
    return f"{kind}/{name}" if name else kind


def _part(event: Object, _: datetime) -> str:
    return text(_either(event, "involvedObject", "regarding"), "fieldPath")


def _source(event: Object, _: datetime) -> str:
    source = _either(event, "source", "deprecatedSource")
    reporter = _either(event, "reportingComponent", "reportingController")
    component = text(source, "component") or (reporter if isinstance(reporter, str) else "")
    host = text(source, "host") or text(event, "reportingInstance")
    return f"{component}, {host}" if host else component


def _message(event: Object, _: datetime) -> str:
    found = _either(event, "message", "note")
    return found.strip() if isinstance(found, str) else ""


def _since(value: Any, now: datetime) -> str:
    return durations.age(value, now) if isinstance(value, str) else UNKNOWN


def first_seen(event: Object, now: datetime) -> str:
    """Time since it happened for the first time."""
    return _since(_either(event, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime"), now)


def last_seen(event: Object, now: datetime) -> str:
    """Time since it last happened."""
    if series := get(event, "series"):
        return _since(get(series, "lastObservedTime"), now)
    last = _either(event, "lastTimestamp", "deprecatedLastTimestamp")
    return first_seen(event, now) if last is None else _since(last, now)


def _count(event: Object, _: datetime) -> int:
    if series := get(event, "series"):
        # A series begins with an event of its own, which it does not count.
        return number(series, "count") + 1
    return number(event, "count") or number(event, "deprecatedCount") or 1


CELLS: dict[tuple[str, str], Cell] = {}
for _resource in ("events", "events.events.k8s.io"):
    CELLS |= {
        (_resource, "Last Seen"): last_seen,
        (_resource, "Object"): about,
        (_resource, "Subobject"): _part,
        (_resource, "Source"): _source,
        (_resource, "Message"): _message,
        (_resource, "First Seen"): first_seen,
        (_resource, "Count"): _count,
    }
