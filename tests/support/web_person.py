"""A user with a browser, who waits for what a page is to show."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from support.processes import SECONDS
from support.signing_in import Browser, csrf_of
from support.web_pages import text_of

Fields = Iterable[tuple[str, str]]


class Person:
    """Reads pages as text, and sends forms."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser

    async def sees(self, path: str) -> str:
        return text_of(await self.html(path))

    async def html(self, path: str) -> str:
        reply = await self.browser.get(path)
        assert reply.status == 200, reply.text
        return reply.text.partition('id="page"')[2]

    async def waits(self, path: str, shown: Callable[[str], bool]) -> str:
        """What a page says once it says what it is to say."""
        text = ""
        try:
            async with asyncio.timeout(SECONDS):
                while not shown(text):
                    text = text_of((await self.browser.get(path)).text.partition('id="page"')[2])
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise AssertionError(f"{path} says: {text}") from None
        return text

    async def sends(self, path: str, fields: Fields = ()) -> tuple[int, str]:
        """A form to its page: the status, and where it leads or what it says."""
        form = csrf_of((await self.browser.get(path)).text)
        reply = await self.browser.post(path, [("csrf", form), *fields])
        where = reply.headers.get("Location")
        return reply.status, where or text_of(reply.text.partition('id="page"')[2])
