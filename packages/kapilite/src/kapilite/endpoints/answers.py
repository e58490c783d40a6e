"""Answers: an object, a list or a Status, in the form the client requested."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import zlib
from typing import TYPE_CHECKING, Any, TypeVar

from aiohttp import web

from kapilite.encodings import negotiation
from kapilite.printers import tables
from kapilite.reads import listing
from kapilite.storage.events import as_object, in_form

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kapilite.encodings.negotiation import Form
    from kapilite.kinds import Kind

LARGE = 128 * 1024
"""Shorter answers are sent at once, and as they are."""
_GZIP = 16 + zlib.MAX_WBITS
_Response = TypeVar("_Response", bound=web.StreamResponse)
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


async def large(
    request: web.Request, body: Iterator[bytes], form: Form, *, warnings: Iterable[str] = ()
) -> web.StreamResponse:
    """A list: a long one is sent while it is made, compressed where the client knows how.

    Between its pieces others have a turn, and a client that reads slowly makes it wait.
    """
    start = b""
    for piece in body:
        start += piece
        if len(start) >= LARGE:
            break
        await asyncio.sleep(0)
    else:
        return warned(web.Response(body=start, content_type=form.media_type), warnings)
    response = web.StreamResponse(headers={"Content-Type": form.media_type})
    warned(response, warnings)
    packer = None
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        response.headers["Content-Encoding"] = "gzip"
        packer = zlib.compressobj(1, wbits=_GZIP)
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        for piece in itertools.chain((start,), body):
            if packer:
                # A list of 10,000 objects takes a tenth of a second: not on the event loop.
                await response.write(await asyncio.to_thread(packer.compress, piece))
            else:
                await response.write(piece)
                await asyncio.sleep(0)
        await response.write_eof(packer.flush() if packer else b"")
    return response


def warned(response: _Response, warnings: Iterable[str]) -> _Response:
    """The response with its warnings for the client."""
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
