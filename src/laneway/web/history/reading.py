"""What a user is shown of the history: entries of VMs and pods that the user may list.

Gaps concern every holder and name no VM or pod, so every user sees them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from laneway.core.history import Gap, Span, moment, unobserved, written
from laneway.web import holders
from laneway.web.history.finding import Found, Query
from laneway.web.history.recorder import History
from laneway.web.place import Place
from laneway.web.visit import Visit

LIMIT, MOST = 100, 1000
_CURSOR = re.compile(r"([0-9]{1,16})-([0-9]{1,16})")


class BadQueryError(Exception):
    """A field of the query cannot be read."""

    def __init__(self, text: str, value: str) -> None:
        """`text`: the id of what is wrong with it."""
        super().__init__(text)
        self.text = text
        self.value = value


class Look(NamedTuple):
    """What one user finds."""

    found: Found
    hidden: bool
    """Whether the history has holders that the user may not list."""
    now: int


def query_of(place: Place, now: int, limit: int = LIMIT) -> Query:
    """What an address asks for. Raises BadQueryError."""
    namespace, _, name = place.get("vm").strip().rpartition("/")
    return Query(
        device=place.get("device").strip(),
        node=place.get("node").strip(),
        namespace=namespace or place.get("namespace").strip(),
        name=name,
        since=_moment(place.get("since").strip(), now),
        until=_moment(place.get("until").strip(), now),
        after=_cursor(place.get("continue")),
        limit=_limit(place.get("limit"), limit),
    )


async def look(visit: Visit, history: History, query: Query) -> Look:
    """Raises UnusableError."""
    places = await history.places()
    await holders.load_consumers(visit, places)
    seen = frozenset(one for one in places if holders.may_see(visit, one))
    everything = all(map(visit.may, holders.LISTS.values()))
    found = await history.find(query, None if everything else seen)
    return Look(found, not everything and seen != places, history.now)


async def document(visit: Visit) -> Mapping[str, Any] | None:
    """For programs; None where no history is kept. Raises BadQueryError and UnusableError."""
    history = visit.site.history
    if history is None:
        return None
    found, hidden, now = await look(visit, history, query_of(visit.place, history.now))
    return {
        "recordedSince": written(found.began) if found.began else None,
        "recording": history.recording,
        "problem": history.problem,
        "partial": hidden,
        "continue": cursor(found),
        "items": [_item(span, found.gaps, now) for span in found.spans],
    }


def cursor(found: Found) -> str:
    """Where the next page begins; empty: there is none."""
    return f"{found.spans[-1].since}-{found.spans[-1].id}" if found.more else ""


def _item(span: Span, gaps: Mapping[str, Sequence[Gap]], now: int) -> Mapping[str, Any]:
    times = {
        "from": written(span.since),
        "to": None if span.until is None else written(span.until),
    }
    if (hold := span.hold) is None:
        return {"type": "NotObserved", "node": span.node, **times}
    return {
        "type": "Held",
        "device": hold.device,
        "node": hold.node,
        "gpu": hold.gpu,
        "profile": hold.profile,
        "resource": hold.resource,
        "holder": {
            "kind": hold.holder.kind.value,
            "namespace": hold.holder.namespace,
            "name": hold.holder.name,
        },
        **times,
        "fromObserved": span.begin_seen,
        "toObserved": span.end_seen,
        "notObservedSeconds": unobserved(span, gaps, now) // 1000,
    }


def _moment(text: str, now: int) -> int | None:
    if not text:
        return None
    try:
        return moment(text, now)
    except (ValueError, OverflowError):
        raise BadQueryError("bad_time", text) from None


def _cursor(text: str) -> tuple[int, int] | None:
    if not text:
        return None
    if (found := _CURSOR.fullmatch(text)) is None:
        raise BadQueryError("bad_continue", text)
    return int(found[1]), int(found[2])


def _limit(text: str, default: int) -> int:
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and int(text)):
        raise BadQueryError("bad_limit", text)
    return min(int(text), MOST)
