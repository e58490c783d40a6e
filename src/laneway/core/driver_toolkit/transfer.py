"""What an answer to a request for the package means, when a part of it may be here already.

A download is continued only where the server confirms that its file is still the one that the part
came from (`If-Range` with a strong validator). Whatever else it answers, the file is taken from
its beginning, or refused. Redirects are followed to another place, never to a weaker scheme.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple
from urllib.parse import urljoin, urlsplit

from laneway.core.driver_toolkit.settings import SCHEMES

REDIRECTS = 5
_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")
_UNSATISFIED = re.compile(r"bytes \*/(\d{1,15})")
_MOVED = (301, 302, 303, 307, 308)
_LATER = (408, 425, 429)
_PROXY = 407


class Answer(NamedTuple):
    """What to do with a server's answer."""

    kind: Literal["body", "redirect", "absent", "again", "restart", "whole"]
    """Take the body; go elsewhere; give up; try again; without the part; all of it is here."""
    start: int = 0
    """Where the body belongs."""
    total: int | None = None
    """The size of the file, where it is known."""
    text: str = ""


def conditions(size: int, validator: str) -> dict[str, str]:
    """The headers that ask for what is missing behind `size` bytes."""
    # compressed, it would be another file than the one whose hash is known
    headers = {"Accept-Encoding": "identity"}
    if size and validator:
        headers |= {"Range": f"bytes={size}-", "If-Range": validator}
    return headers


def validator_of(headers: Mapping[str, str]) -> str:
    """What the server must confirm later; empty if it offers nothing that identifies bytes."""
    tag = headers.get("ETag", "")
    if tag and not tag.startswith("W/"):
        return tag
    return headers.get("Last-Modified", "")


def judge(status: int, headers: Mapping[str, str], size: int) -> Answer:
    """`size`: how much is here already."""
    if status == 200:
        return Answer("body", 0, _number(headers.get("Content-Length", "")))
    if status == 206:
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        if not found or int(found[1]) > size:
            return Answer("restart", text="it answers with another part than the one requested")
        return Answer("body", int(found[1]), _number(found[3]))
    if status == 416:
        found = _UNSATISFIED.fullmatch(headers.get("Content-Range", ""))
        if found and int(found[1]) == size:
            return Answer("whole", size, size)
        return Answer("restart", text="the file there is shorter than what arrived")
    if status in _MOVED:
        return Answer("redirect", text=headers.get("Location", ""))
    if status == _PROXY:
        return Answer("again", text=proxy_refuses(status))
    if status in _LATER or status >= 500:
        return Answer("again", text=f"it answers with status {status}")
    return Answer("absent")


def proxy_refuses(status: int) -> str:
    """Of a proxy that answers in the place of the server."""
    return f"the proxy answers with status {status}"


def redirected(url: str, target: str) -> tuple[str, str]:
    """Where a redirect leads, and why it is not followed; the reason is empty if it is."""
    try:
        new = urljoin(url, target)
        parts = urlsplit(new)
        usable = bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return target, "which is no URL"
    if not target or not usable or parts.scheme not in SCHEMES:
        return new, "which is neither https nor http"
    if url.startswith("https:") and parts.scheme != "https":
        return new, "which is not encrypted"
    if "@" in parts.netloc:
        return new, "which has a user or a password"
    return new, ""


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 16 else None
