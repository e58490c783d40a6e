"""A tab is sent what looks different, once for any number of changes, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping

import pytest

from laneway.kube.resource import Key
from laneway.web.caches import Change
from laneway.web.stream.tab import Concerns, Tab, event

ALL = "event: blocks\ndata: <div>1</div>\ndata: <div>a\ndata: b</div>\n\n"
VGPU = Change("vgpus", Key("", "one"), None, None)


class Page:
    """A page with two blocks, whose drawings are counted."""

    def __init__(self) -> None:
        self.blocks = {"live_table": "<div>1</div>", "live_notes": "<div>a\nb</div>"}
        self.drawn = 0
        self.sent: asyncio.Queue[str] = asyncio.Queue()
        self.rested = asyncio.Event()
        self.shows: Concerns | None = None

    def draw(self) -> Mapping[str, str]:
        self.drawn += 1
        return dict(self.blocks)

    async def rest(self, _seconds: float) -> None:
        await self.rested.wait()
        self.rested.clear()

    def tab(self, *, is_current: bool = False) -> Tab:
        return Tab(
            frozenset({"vgpus"}),
            self.draw,
            lambda: self.shows,
            is_current=is_current,
            sleep=self.rest,
        )

    @contextlib.asynccontextmanager
    async def open(self, tab: Tab) -> AsyncIterator[None]:
        task = asyncio.create_task(tab.run(self.sent.put))
        try:
            yield
        finally:
            task.cancel()

    async def next(self) -> str:
        async with asyncio.timeout(5):
            return await self.sent.get()


@pytest.fixture
def page() -> Page:
    return Page()


async def test_a_browser_that_shows_what_is_now_is_sent_nothing_until_that_changes(
    page: Page,
) -> None:
    tab = page.tab(is_current=True)
    async with page.open(tab):
        await turns()
        assert page.drawn == 0
        tab.mark(VGPU)
        assert await page.next() == ALL


async def test_a_browser_that_has_an_older_page_is_sent_all_of_it_and_then_what_changes(
    page: Page,
) -> None:
    tab = page.tab()
    async with page.open(tab):
        assert await page.next() == ALL
        page.blocks["live_table"] = "<div>2</div>"
        tab.mark(VGPU)
        page.rested.set()
        assert await page.next() == event("blocks", "<div>2</div>")


async def test_any_number_of_changes_while_it_rests_is_one_drawing(page: Page) -> None:
    tab = page.tab()
    async with page.open(tab):
        await page.next()
        page.blocks["live_table"] = "<div>9</div>"
        for _ in range(100):
            tab.mark(VGPU)
        await turns()
        assert page.drawn == 1
        page.rested.set()
        await page.next()
    assert page.drawn == 2


async def test_what_a_page_does_not_show_does_not_draw_it(page: Page) -> None:
    tab = page.tab()
    async with page.open(tab):
        await page.next()
        page.rested.set()
        await turns()
        tab.mark(Change("pods", Key("", "one"), None, None))
        page.shows = lambda change: change.key.name == "two"
        tab.mark(VGPU)
        await turns()
        assert page.drawn == 1
        tab.redraw()
        await turns()
    assert page.drawn == 2


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)
