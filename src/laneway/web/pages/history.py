"""History: who held which device, from when to when, and when nothing was observed.

It is for those who may list devices, and names the VMs and pods that the user may list. It is read
from a file when the page is opened, and again for each browser that has it open when it is another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from laneway.core.history import Span, unobserved, written
from laneway.kube.resource import Key
from laneway.views.order import natural
from laneway.web.api.capacity import NEEDS
from laneway.web.caches import HISTORY, Change
from laneway.web.history import reading
from laneway.web.history.store import UnusableError
from laneway.web.holders import of_consumer
from laneway.web.page import Action, Context, Page
from laneway.web.place import link
from laneway.web.standing import node_names
from laneway.web.tables.table import Option
from laneway.web.visit import Visit

SPANS = ("1d", "7d", "30d")
FIELDS = ("device", "vm", "namespace", "node", "since", "until")
_ROWS = 50
REST_SECONDS = 2.0
"""For so long after it was read for a browser it is not read again for it."""


class Row(NamedTuple):
    """An entry of the table."""

    id: int
    since: str
    until: str
    device: str
    device_url: str
    node: str
    gpu: str
    kind: str
    """The profile of a vGPU, otherwise the resource."""
    holder: str
    holder_url: str
    notes: tuple[str, ...]
    is_gap: bool = False
    """Of `node`, or of the whole cluster."""


async def _prepare(visit: Visit) -> None:
    history = visit.site.history
    if history is None:
        return
    visit.data = {"changed": history.changed}  # what changes while it is read counts as well
    try:
        query = reading.query_of(visit.place, history.now, _ROWS)
        visit.data["look"] = await reading.look(visit, history, query)
    except reading.BadQueryError as error:
        visit.data["problem"] = visit.texts(f"api.{error.text}", value=error.value[:80])
    except UnusableError as error:
        visit.data["problem"] = visit.texts("history.unusable", why=str(error))


async def _follow(visit: Visit, changed: Callable[[Change], None]) -> None:
    """Read again once the history is another."""
    while "changed" in visit.data:
        await visit.data["changed"].wait()
        await _prepare(visit)
        changed(_read_for(visit))
        await asyncio.sleep(REST_SECONDS)


def _read_for(visit: Visit) -> Change:
    """That it was read again for what this user looks at."""
    return HISTORY._replace(key=Key(visit.user.name, visit.place.url))


def _context(visit: Visit) -> Context:
    texts, history, place = visit.texts, visit.site.history, visit.place
    look: reading.Look | None = visit.data.get("look")
    alerts = []
    if problem := visit.data.get("problem"):
        alerts.append(("danger", problem))
    elif history is not None and history.problem:
        alerts.append(("danger", texts("history.stopped", why=history.problem)))
    if history is not None and history.set_aside:
        alerts.append(("warning", texts("history.set_aside", path=history.set_aside)))
    if look is not None and look.hidden:
        alerts.append(("info", texts("history.hidden")))
    after = reading.cursor(look.found) if look is not None else ""
    return {
        "place": place,
        "kept": history is not None,
        "alerts": alerts,
        "days": history.keeping.days if history is not None else 0,
        "began": written(look.found.began) if look is not None and look.found.began else "",
        "rows": [_row(visit, span, look) for span in look.found.spans] if look else [],
        "nodes": sorted(node_names(visit.caches), key=natural),
        "spans": [Option(one, texts(f"history.last_{one}")) for one in SPANS],
        "filtered": any(place.get(one) for one in FIELDS),
        "older_url": place.with_(**{"continue": after}) if after else "",
        "newest_url": place.with_(**{"continue": ""}) if place.get("continue") else "",
        "concerns": _read_for(visit).__eq__,
    }


def _row(visit: Visit, span: Span, look: reading.Look) -> Row:
    texts = visit.texts
    since, until = written(span.since), written(span.until) if span.until is not None else ""
    if (hold := span.hold) is None:
        return Row(span.id, since, until, "", "", span.node, "", "", "", "", (), is_gap=True)
    notes = []
    if not span.begin_seen:
        notes.append(texts("history.begin_unseen"))
    if not span.end_seen:
        notes.append(texts("history.end_unseen"))
    if seconds := unobserved(span, look.found.gaps, look.now) // 1000:
        notes.append(texts("history.not_observed_for", duration=_duration(seconds)))
    holder = of_consumer(visit, hold.holder)
    return Row(
        id=span.id,
        since=since,
        until=until,
        device=hold.device,
        device_url=_device_url(visit, hold.device),
        node=hold.node,
        gpu=hold.gpu,
        kind=hold.profile or hold.resource,
        holder=holder.text,
        holder_url=holder.url,
        notes=tuple(notes),
    )


def _device_url(visit: Visit, name: str) -> str:
    """The page of a device that there is."""
    caches = visit.caches
    pages = (("vgpus", caches.vgpus), ("pci", caches.pci), ("usb", caches.usb))
    for page, informer in pages:
        if informer.store.get(name) is not None:
            return link(page, name)
    return ""


def _duration(seconds: int) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


PAGES = (
    Page(
        "/history",
        "history.html",
        _context,
        kinds=frozenset({HISTORY.kind}),
        title="nav.history",
        needs=NEEDS,
        prepare=_prepare,
        meanwhile=_follow,
    ),
)
ACTIONS: tuple[Action, ...] = ()
