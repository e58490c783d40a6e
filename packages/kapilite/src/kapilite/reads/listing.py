"""Lists: whole, in pages that show one moment, and as tables.

A plain list is the stored bytes joined, nothing is decoded; what must be, is decoded one object
after the other, so that a table of many costs no more memory than a list. A page's continue token
holds the resourceVersion at which the list began and the last key it showed; the next page shows
the state of that moment. When the history does not reach back to it, the page is refused as Expired
with another token, which goes on from the same key in the state of now.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from kapilite.encodings import negotiation
from kapilite.errors import ApiError
from kapilite.printers import tables
from kapilite.storage.events import as_object, in_form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kapilite.encodings.negotiation import Form, Shape
    from kapilite.kinds import Kind
    from kapilite.storage.store import Row, Store

PIECE = 250
"""Objects that are written at once."""
TABLE_PIECE = 25
"""Rows, of which each can take some time."""
PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects a list is to show."""

    namespace: str | None = None
    selector: Callable[[dict[str, Any]], bool] | None = None
    """A function of the object; None shows all."""
    texts: tuple[bytes, ...] = ()
    """What only objects can lack that the selector does not choose: those need not be decoded."""
    limit: int = 0
    token: str = ""
    at: int | None = None
    """Exactly this resourceVersion; None is the latest."""


class Page(msgspec.Struct, frozen=True):
    """A part of a list."""

    bodies: list[bytes]
    rv: int
    token: str
    remaining: int | None


class _Token(msgspec.Struct):
    """As Kubernetes makes it: the next page begins at `start`; rv -1 is the latest."""

    v: str
    rv: int
    start: str


class _ExpiredPage(ApiError):  # noqa: N818 - named as the reason it carries
    """The list cannot go on as it began, but in another way."""

    def __init__(self, token: str) -> None:
        super().__init__(410, "Expired", _TOO_OLD)
        self._token = token

    def status(self) -> dict[str, Any]:
        return super().status() | {"metadata": {"continue": self._token}}


_VERSION = "meta.k8s.io/v1"
_LATEST = -1
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


def page(store: Store, kind: Kind, query: Query) -> Page:
    """The objects that the query requests, up to its limit."""
    after, at = ("", ""), query.at
    if query.token:
        at, after = _decode(query.token, query.namespace)
    rv = store.rv if at is None else at
    try:
        rows = store.rows(kind.storage, query.namespace, after=after, at=rv)
    except ApiError as error:
        if query.token:
            raise _ExpiredPage(_encode(_LATEST, query.namespace, after)) from error
        text = "The resourceVersion for the provided list is too old."
        raise ApiError(410, "Expired", text) from error
    bodies: list[bytes] = []
    last: Row | None = None
    for row in _selected(rows, query):
        if query.limit and len(bodies) == query.limit and last is not None:
            where = (last.namespace, last.name)
            remaining = (
                None if query.selector else store.count(kind.storage, query.namespace, where, at=rv)
            )
            return Page(bodies, rv, _encode(rv, query.namespace, where), remaining)
        bodies.append(in_form(kind, row.body))
        last = row
    return Page(bodies, rv, "", None)


def pieces(kind: Kind, found: Page, form: Form, include: str) -> Iterator[bytes]:
    """The body of the answer, made piece by piece: a list is never in memory a second time."""
    meta: dict[str, Any] = {"resourceVersion": str(found.rv)}
    if found.token:
        meta["continue"] = found.token
        if found.remaining is not None:
            meta["remainingItemCount"] = found.remaining
    member = "rows" if form.shape == "table" else "items"
    head, write = _writer(kind, meta, form.shape, include)
    if form.media_type == negotiation.YAML:
        items = [as_object(write(body)) for body in found.bodies]
        yield negotiation.encode(head | {member: items}, form.media_type)
        return
    yield msgspec.json.encode(head)[:-1] + b',"%s":[' % member.encode()
    size = TABLE_PIECE if form.shape == "table" else PIECE
    for at in range(0, len(found.bodies), size):
        yield b"," * (at > 0) + b",".join(map(write, found.bodies[at : at + size]))
    yield b"]}\n"


def _writer(
    kind: Kind, meta: dict[str, Any], shape: Shape, include: str
) -> tuple[dict[str, Any], Callable[[bytes], bytes]]:
    """The list but for its members, and what makes a member of an object."""
    if shape == "table":
        row = tables.rows(kind, include)
        head = {**tables.head(kind), "metadata": meta}
        return head, lambda body: msgspec.json.encode(row(as_object(body)))
    if shape == "metadata":
        head = {"kind": "PartialObjectMetadataList", "apiVersion": PARTIAL["apiVersion"]}
        return head | {"metadata": meta}, lambda body: msgspec.json.encode(
            PARTIAL | {"metadata": as_object(body)["metadata"]}
        )
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
    if kind.custom:
        return head, bytes
    # Kubernetes' own kinds say what they are once, in the head of the list.
    own = b'{"apiVersion":"%s","kind":"%s",' % (kind.api_version.encode(), kind.kind.encode())
    return head, lambda body: b"{" + body.removeprefix(own)


def _selected(rows: Iterator[Row], query: Query) -> Iterator[Row]:
    selector, texts = query.selector, query.texts
    if selector is None:
        return rows
    return (
        row
        for row in rows
        if all(text in row.body for text in texts) and selector(as_object(row.body))
    )


def _encode(rv: int, namespace: str | None, last: tuple[str, str]) -> str:
    """The key after the last one: names hold no zero byte, so nothing lies between."""
    start = last[1] if namespace is not None or not last[0] else "/".join(last)
    raw = msgspec.json.encode(_Token(_VERSION, rv, f"{start}\0"))
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(text: str, namespace: str | None) -> tuple[int | None, tuple[str, str]]:
    """The moment, and the key after which to go on."""
    bad = ApiError(400, "BadRequest", "invalid continue token: continue key is not valid")
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        token = msgspec.json.decode(raw, type=_Token)
        start = token.start.removesuffix("\0")
    except (ValueError, binascii.Error) as error:
        raise bad from error
    if token.v != _VERSION or not (token.rv > 0 or token.rv == _LATEST) or not start:
        raise bad
    within, _, name = start.rpartition("/")
    if namespace is not None:
        within = namespace
    return None if token.rv == _LATEST else token.rv, (within, name)
