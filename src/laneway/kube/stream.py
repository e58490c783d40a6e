"""A watch: an endless answer with one event per line.

Lines are cut here and not by aiohttp, whose readers give up on lines of more than 64 KiB, while one
object may have megabytes. Pieces are kept apart until the line is whole, so that a long line costs
its length and not the square of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator

import msgspec

from laneway.kube.errors import UndecodableError, from_status


class WatchEvent(msgspec.Struct, frozen=True):
    """One change; the object is not decoded yet."""

    type: str
    object: msgspec.Raw


_decode_event = msgspec.json.Decoder(WatchEvent).decode


async def lines(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The non-empty lines; what follows the last line break was cut off and is dropped."""
    pieces: list[bytes] = []
    async for chunk in chunks:
        head, *rest = chunk.split(b"\n")
        pieces.append(head)
        for following in rest:
            if line := b"".join(pieces):
                yield line
            pieces = [following]


def event(line: bytes) -> WatchEvent:
    """One line; an ERROR event is raised as what it says (GoneError, ApiError)."""
    try:
        decoded = _decode_event(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UndecodableError(f"a line of the watch is not an event: {error}") from None
    if decoded.type == "ERROR":
        raise from_status(decoded.object)
    return decoded
