"""Answers: an object, a list or a Status, in the form the client asked for."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING, Any

from aiohttp import web

from laneway.apiserver import listing, negotiation, tables
from laneway.apiserver.events import as_object, in_form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.apiserver.kinds import Kind
    from laneway.apiserver.negotiation import Form

GZIP_FROM = 128 * 1024
"""Smaller answers are sent as they are."""
WARNING_LIMIT = 4096
"""Characters of all warnings of one answer together: clients refuse larger headers."""
WARNING_CUT = 256
"""Characters of each of them, where all would be too many."""


def form_of(request: web.Request) -> Form:
    """The form the client prefers. Raises a 406 when none that it accepts can be made."""
    return negotiation.form(request.headers.get("Accept", ""))


def stored(
    kind: Kind,
    body: bytes,
    form: Form,
    *,
    status: int = 200,
    warnings: Iterable[str] = (),
    include: str = "Metadata",
) -> web.Response:
    """An object as it lies in the store."""
    body = in_form(kind, body)
    if form != negotiation.Form():
        body = negotiation.encode(_shaped(kind, as_object(body), form, include), form.media_type)
    response = web.Response(body=body, status=status, content_type=form.media_type)
    return warned(response, warnings)


def shown(
    kind: Kind,
    obj: dict[str, Any],
    form: Form,
    *,
    status: int = 200,
    warnings: Iterable[str] = (),
) -> web.Response:
    """An object that was made for this answer."""
    body = negotiation.encode(_shaped(kind, obj, form, "Metadata"), form.media_type)
    response = web.Response(body=body, status=status, content_type=form.media_type)
    return warned(response, warnings)


def success(
    form: Form, *, status: int = 200, warnings: Iterable[str] = (), **details: str
) -> web.Response:
    """The `Status` that says that it was done."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        **({"code": status} if status != 200 else {}),
        "details": {name: value for name, value in details.items() if value},
    }
    encoded = negotiation.encode(body, form.media_type)
    response = web.Response(body=encoded, status=status, content_type=form.media_type)
    return warned(response, warnings)


async def large(request: web.Request, body: bytes, form: Form) -> web.Response:
    """A list, compressed where that is worth it."""
    response = web.Response(content_type=form.media_type)
    if len(body) >= GZIP_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
        # Off the event loop: a list of 10,000 objects takes a tenth of a second.
        body = await asyncio.to_thread(gzip.compress, body, 1)
        response.headers["Content-Encoding"] = "gzip"
    response.body = body
    return response


def warned(response: web.Response, warnings: Iterable[str]) -> web.Response:
    """The response with what the client should be told beside it."""
    texts = [text for text in dict.fromkeys(warnings) if text and text.isprintable()]
    if sum(map(len, texts)) > WARNING_LIMIT:
        texts = [text[:WARNING_CUT] for text in texts][: WARNING_LIMIT // WARNING_CUT]
    for text in texts:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response


def _shaped(kind: Kind, obj: dict[str, Any], form: Form, include: str) -> dict[str, Any]:
    if form.shape == "table":
        rv = obj.get("metadata", {}).get("resourceVersion", "")
        table = tables.render(kind, [obj], include_object=include)
        return {**table, "metadata": {"resourceVersion": rv}}
    if form.shape == "metadata":
        return listing.PARTIAL | {"metadata": obj.get("metadata", {})}
    return obj
