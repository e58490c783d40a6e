"""What a form sends, with a file where the page takes one.

A file is read into memory and never written to a disk. One that is larger than the page takes is
read on to its end and dropped, so that the browser gets the answer that says so. A few files at a
time are in memory, each until its request is answered, and each has limited time to come: otherwise
one user could take all memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from aiohttp import BodyPartReader, web
from aiohttp.http import HttpProcessingError

_MOST_FIELDS = 100
_MOST_FIELD_BYTES = 64 * 1024
_DROPPED = 16
"""So many times the size of the largest file is read to its end; more is cut off."""


MOST_AT_A_TIME = 8
SECONDS = 120.0
"""How long a file may take to come."""


class Uploads:
    """The files that are in memory for their requests."""

    def __init__(self, most: int = MOST_AT_A_TIME) -> None:
        self._left = most

    @contextmanager
    def room(self, request: web.Request, file_bytes: int) -> Iterator[None]:
        """For the file of a request, if it sends one. Raises HTTPServiceUnavailable."""
        if not _is_upload(request, file_bytes):
            yield
            return
        if not self._left:
            raise web.HTTPServiceUnavailable(
                text="Too many files are being uploaded. Upload yours again in a moment.",
                headers={"Retry-After": "5"},
            )
        self._left -= 1
        try:
            yield
        finally:
            self._left += 1


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

    Raises HTTPBadRequest for what no browser sends, HTTPRequestEntityTooLarge, HTTPRequestTimeout.
    """
    if SENT not in request:
        try:
            if _is_upload(request, file_bytes):
                async with asyncio.timeout(SECONDS):
                    request[SENT] = await _parts(request, file_bytes)
            else:
                request[SENT] = await _plain(request)
        except TimeoutError:
            text = f"The file did not come within {SECONDS:.0f} seconds. Upload it again."
            raise web.HTTPRequestTimeout(text=text) from None
        except (ValueError, LookupError, RuntimeError, HttpProcessingError):
            raise web.HTTPBadRequest from None
    return request[SENT]


def _is_upload(request: web.Request, file_bytes: int) -> bool:
    return file_bytes > 0 and request.content_type == "multipart/form-data"


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
