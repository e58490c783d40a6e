"""Pages of the interface as a reader sees them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from html import unescape

from support.processes import SECONDS
from support.signing_in import Browser, Reply, csrf_of

Fields = Iterable[tuple[str, str]]
"""The fields of a form; some may occur several times."""
_MARKS = re.compile(r"<(noscript|select)\b.*?</\1>|<[^>]+>", re.DOTALL)


def text_of(page: str) -> str:
    """What a page says, without its marks and the choices of its filters; dashes are hyphens."""
    return " ".join(unescape(_MARKS.sub(" ", page)).split()).replace("\N{EN DASH}", "-")


class Person:
    """A user with a browser, who waits for what a page is to show."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    async def html(self, path: str, status: int = 200) -> str:
        reply = await self.browser.get(path)
        assert reply.status == status, reply.text
        return reply.text

    async def sees(self, path: str, status: int = 200) -> str:
        return text_of(await self.html(path, status))

    async def posts(self, path: str, fields: Fields = (), **more: str) -> Reply:
        """A form to its page."""
        csrf = csrf_of(await self.html(path))
        return await self.browser.post(path, [("csrf", csrf), *fields, *more.items()])

    async def sends(self, path: str, fields: Fields = (), **more: str) -> tuple[int, str]:
        """The same: the status, and where it leads or what it shows."""
        reply = await self.posts(path, fields, **more)
        return reply.status, reply.headers.get("Location") or text_of(reply.text)

    async def waits(self, path: str, shown: Callable[[str], bool]) -> str:
        text = ""
        try:
            async with asyncio.timeout(SECONDS):
                while True:
                    if shown(text := await self.sees(path)):
                        return text
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{path} shows only: {text}") from None
