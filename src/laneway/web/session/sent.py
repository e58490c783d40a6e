"""What a form sends, with a file where the page takes one.

A file is read into memory and never written to a disk. One that is larger than the page takes is
read on to its end and dropped, so that the browser gets the answer that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import BodyPartReader, web
from aiohttp.http import HttpProcessingError

_MOST_FIELDS = 100
_MOST_FIELD_BYTES = 64 * 1024
_DROPPED = 16
"""So many times the size of the largest file is read to its end; more is cut off."""


class File(NamedTuple):
    """A file that was sent."""

    name: str
    content: bytes | None
    """None: it is too large."""


class Sent(NamedTuple):
    """All of a form."""

    fields: Mapping[str, list[str]]
    files: Mapping[str, File] = {}


SENT = web.RequestKey("sent", Sent)
"""Where a handler finds it: `request[SENT]`."""


async def receive(request: web.Request, file_bytes: int = 0) -> Sent:
    """What a form sends, kept for every handler; `file_bytes`: the largest file, 0 takes none.

    Raises HTTPBadRequest for what no browser sends, HTTPRequestEntityTooLarge.
    """
    if SENT not in request:
        try:
            is_upload = file_bytes and request.content_type == "multipart/form-data"
            request[SENT] = await (_parts(request, file_bytes) if is_upload else _plain(request))
        except (ValueError, LookupError, RuntimeError, HttpProcessingError):
            raise web.HTTPBadRequest from None
    return request[SENT]


async def _plain(request: web.Request) -> Sent:
    found = await request.post()
    return Sent({key: [str(value) for value in found.getall(key)] for key in found})


async def _parts(request: web.Request, file_bytes: int) -> Sent:
    fields: dict[str, list[str]] = {}
    files: dict[str, File] = {}
    count, left = 0, _DROPPED * file_bytes
    reader = await request.multipart()
    while (part := await reader.next()) is not None:
        count += 1
        if not isinstance(part, BodyPartReader) or not part.name or count > _MOST_FIELDS:
            raise web.HTTPBadRequest
        is_file = part.filename is not None and not files
        most = file_bytes if is_file else _MOST_FIELD_BYTES
        content = bytearray()
        size = 0
        while chunk := await part.read_chunk():
            size, left = size + len(chunk), left - len(chunk)
            if left < 0 or (size > most and not is_file):
                raise web.HTTPRequestEntityTooLarge(most, size)
            if size <= most:
                content += chunk
            else:
                content.clear()
        if is_file:
            files[part.name] = File(part.filename or "", bytes(content) if size <= most else None)
        else:
            fields.setdefault(part.name, []).append(content.decode())
    return Sent(fields, files)
