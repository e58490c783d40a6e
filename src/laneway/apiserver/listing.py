"""Lists: whole, in pages that show one moment, and as tables.

A plain list is the stored bytes joined, nothing is decoded. A page's continue token holds the
resourceVersion at which the list began and the last key it showed; the next page shows the state
of that moment, or is refused as Expired when the log does not reach back to it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.apiserver import negotiation, tables
from laneway.apiserver.errors import ApiError
from laneway.apiserver.events import as_object, in_version

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.negotiation import Form
    from laneway.apiserver.store import Row, Store

PARTIAL = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects a list is to show."""

    namespace: str | None = None
    selector: Callable[[dict[str, Any]], bool] | None = None
    """A function of the object; None shows all."""
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
    rv: int
    namespace: str
    name: str


def page(store: Store, kind: Kind, query: Query) -> Page:
    """The objects that the query asks for, up to its limit."""
    after, at = ("", ""), query.at
    if query.token:
        token = _decode(query.token)
        after, at = (token.namespace, token.name), token.rv
    rv = store.rv if at is None else at
    try:
        rows = store.rows(kind.resource, query.namespace, after=after, at=rv)
    except ApiError as error:
        if query.token:
            text = (
                "The provided continue parameter is too old to display a consistent list result. "
                "You must start a new list without the continue parameter."
            )
            raise ApiError(410, "Expired", text) from error
        raise
    bodies: list[bytes] = []
    last: Row | None = None
    for row in _selected(rows, query.selector):
        if query.limit and len(bodies) == query.limit and last is not None:
            where = (last.namespace, last.name)
            remaining = (
                None if query.selector else store.count(kind.resource, query.namespace, where)
            )
            return Page(bodies, rv, _encode(_Token(rv, *where)), remaining)
        bodies.append(in_version(row.body, kind.api_version))
        last = row
    return Page(bodies, rv, "", None)


def render(kind: Kind, found: Page, form: Form, include: str) -> bytes:
    """The body of the answer."""
    meta: dict[str, Any] = {"resourceVersion": str(found.rv)}
    if found.token:
        meta["continue"] = found.token
        if found.remaining is not None:
            meta["remainingItemCount"] = found.remaining
    if form.shape == "table":
        body = tables.render(kind, [as_object(raw) for raw in found.bodies], include_object=include)
        return negotiation.encode({**body, "metadata": meta}, form.media_type)
    head = {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": meta}
    if form.shape == "metadata":
        head |= {"kind": "PartialObjectMetadataList", "apiVersion": PARTIAL["apiVersion"]}
        items = [PARTIAL | {"metadata": as_object(raw)["metadata"]} for raw in found.bodies]
        return negotiation.encode(head | {"items": items}, form.media_type)
    if form.media_type == negotiation.YAML:
        items = [as_object(raw) for raw in found.bodies]
        return negotiation.encode(head | {"items": items}, form.media_type)
    return msgspec.json.encode(head)[:-1] + b',"items":[' + b",".join(found.bodies) + b"]}\n"


def _selected(rows: Iterator[Row], selector: Any) -> Iterator[Row]:
    if selector is None:
        return rows
    return (row for row in rows if selector(as_object(row.body)))


def _encode(token: _Token) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str) -> _Token:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(raw, type=_Token)
    except (ValueError, binascii.Error) as error:
        raise ApiError(400, "BadRequest", "continue key is not valid") from error
