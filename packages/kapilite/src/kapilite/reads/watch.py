"""Watch: every change of a resource from a resourceVersion on, as a stream of JSON lines.

The history and the live events join without a gap: a watch subscribes first, and reads the history
up to that moment, in pieces, so that a long one delays no other. With a selector a watch shows
the selected set: an object that begins to match is ADDED, one that stops matching is DELETED,
whatever happened to it. A history that has been compacted is answered with an ERROR event of code
410 inside the stream, as clients expect it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import struct
from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from kapilite.encodings import negotiation
from kapilite.errors import ApiError
from kapilite.printers import tables
from kapilite.reads import listing, moments
from kapilite.storage.events import Event, Key

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping

    from kapilite.encodings.negotiation import Form, Shape
    from kapilite.kinds import Kind
    from kapilite.reads.listing import Query
    from kapilite.storage.events import Subscription
    from kapilite.storage.store import Store

BOOKMARK_SECONDS = 55.0
PIECE = 500
"""Objects or changes of the beginning that are sent at once."""
INITIAL_END = "k8s.io/initial-events-end"


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How the stream is to be."""

    since: str = ""
    """A resourceVersion; "" and "0" begin with what exists."""
    bookmarks: bool = False
    initial_events: bool = False
    """Begin with what exists, and mark where that ends."""
    only_new: bool = False
    """Leave out what exists, even if `since` says that it is to be shown."""
    timeout: float | None = None
    shape: Shape = "object"
    include: str = "Metadata"


def options(query: Mapping[str, str], form: Form, latest: int) -> WatchOptions:
    """How a client wants its stream. Raises ApiError for what cannot be."""
    moments.check(query, watch=True)
    wanted, initial = moments.version(query), moments.initial_events(query)
    if form.media_type == negotiation.YAML:
        raise ApiError(406, "NotAcceptable", _FORMS)
    if initial and wanted > latest:
        raise moments.too_large(wanted, latest)
    moments.number(query, "limit")  # it means nothing here, but must be one
    timeout = moments.number(query, "timeoutSeconds")
    return WatchOptions(
        since=str(wanted or ""),
        bookmarks=moments.flag(query, "allowWatchBookmarks"),
        initial_events=bool(initial),
        only_new=initial is False,
        timeout=float(timeout) or None,
        shape=form.shape,
        include=query.get("includeObject", "Metadata"),
    )


_FORMS = (
    "only the following media types are accepted: application/json;stream=watch, "
    "application/vnd.kubernetes.protobuf;stream=watch"
)


class Encoder:
    """Turns events into the lines of one watch."""

    def __init__(self, kind: Kind, query: Query, options: WatchOptions) -> None:
        self._kind = kind
        self._namespace = query.namespace
        self._selector = query.selector
        self._shape = options.shape
        self._include = options.include
        self._headers = True

    def lines(self, events: Iterable[Event]) -> bytes:
        return b"".join(line for event in events for line in self._line(event))

    def _line(self, event: Event) -> Iterator[bytes]:
        if self._namespace is not None and event.key.namespace != self._namespace:
            return
        change = self._change(event)
        if change is None:
            return
        if self._shape == "object":
            yield event.line(change, self._kind)
            return
        yield msgspec.json.encode({"type": change, "object": self._shaped(event)}) + b"\n"

    def _change(self, event: Event) -> str | None:
        if self._selector is None:
            return event.change
        before = event.previous_object
        matched = before is not None and self._selector(before)
        if event.change == "DELETED":
            return "DELETED" if matched else None
        if self._selector(event.object):
            return "MODIFIED" if matched else "ADDED"
        return "DELETED" if matched else None

    def _shaped(self, event: Event) -> dict[str, Any]:
        if self._shape == "metadata":
            return listing.PARTIAL | {"metadata": event.object["metadata"]}
        return self._table([event.object], event.rv)

    def _table(self, objects: list[dict[str, Any]], rv: int) -> dict[str, Any]:
        table = tables.render(
            self._kind, objects, include_object=self._include, headers=self._headers
        )
        self._headers = False
        return {**table, "metadata": {"resourceVersion": str(rv)}}

    def bookmark(self, rv: int, *, initial_end: bool = False) -> bytes:
        meta: dict[str, Any] = {"resourceVersion": str(rv)}
        if initial_end:
            meta["annotations"] = {INITIAL_END: "true"}
        if self._shape == "table":
            obj = {**self._table([], rv), "metadata": meta}
        elif self._shape == "metadata":
            obj = listing.PARTIAL | {"metadata": meta}
        else:
            head = {"kind": self._kind.kind, "apiVersion": self._kind.api_version}
            obj = {**head, "metadata": meta}
        return msgspec.json.encode({"type": "BOOKMARK", "object": obj}) + b"\n"


def error_line(error: ApiError) -> bytes:
    return msgspec.json.encode({"type": "ERROR", "object": error.status()}) + b"\n"


async def serve(
    request: web.Request, store: Store, kind: Kind, query: Query, options: WatchOptions
) -> web.StreamResponse:
    """Answer a watch request until its time is over, the client goes or the server stops."""
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()

    def cut_off() -> None:
        # The writer waits for a client that does not read. Only a reset frees it at once, with
        # what lies in the buffers of the kernel.
        if request.transport is not None:
            connection = request.transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            request.transport.abort()

    await response.prepare(request)
    subscription = store.fanout.subscribe(kind.storage, cut_off)
    stream = _lines(subscription, store, kind, query, options)
    try:
        with contextlib.suppress(ConnectionError):
            async for lines in stream:
                await response.write(lines)
            await response.write_eof()
    finally:
        await stream.aclose()
        store.fanout.unsubscribe(kind.storage, subscription)
    return response


async def _lines(
    subscription: Subscription,
    store: Store,
    kind: Kind,
    query: Query,
    options: WatchOptions,
) -> AsyncGenerator[bytes, None]:
    encoder = Encoder(kind, query, options)
    rv = store.rv
    try:
        async for lines in _beginning(encoder, store, kind, query, options):
            if lines:
                yield lines
    except ApiError as error:
        yield error_line(error)
        return
    clock = asyncio.get_running_loop().time
    # As in Kubernetes the end is spread out, so that clients do not come back all at once.
    seconds = options.timeout or random.uniform(1800, 3600)  # noqa: S311 - not a secret
    end = clock() + seconds
    next_bookmark = clock() + BOOKMARK_SECONDS
    while not subscription.done and clock() < end:
        events = await subscription.batch(min(end, next_bookmark))
        if lines := encoder.lines(events):
            yield lines
        # When nothing waits, everything up to the store's latest change has been seen.
        rv = events[-1].rv if events else store.rv
        if clock() >= next_bookmark:
            next_bookmark = clock() + BOOKMARK_SECONDS
            if options.bookmarks:
                yield encoder.bookmark(rv)
    if options.bookmarks:
        yield encoder.bookmark(rv)


async def _beginning(
    encoder: Encoder, store: Store, kind: Kind, query: Query, options: WatchOptions
) -> AsyncGenerator[bytes, None]:
    """What comes before the live events."""
    now = store.rv
    if options.initial_events or (options.since in ("", "0") and not options.only_new):
        after: tuple[str, str] | None = ("", "")
        while after is not None:
            found = store.rows(kind.storage, query.namespace, after=after, at=now)
            rows = list(itertools.islice(found, PIECE))
            after = (rows[-1].namespace, rows[-1].name) if len(rows) == PIECE else None
            yield encoder.lines(
                Event(0, "ADDED", Key(kind.storage, row.namespace, row.name), row.body, None)
                for row in rows
            )
            await asyncio.sleep(0)
        if options.initial_events and options.bookmarks:
            yield encoder.bookmark(now, initial_end=True)
    elif options.since not in ("", "0"):
        since = int(options.since)
        while events := store.events_after(kind.storage, since, until=now, limit=PIECE):
            since = events[-1].rv
            yield encoder.lines(events)
            await asyncio.sleep(0)
