"""A site with a cluster in which much is not as it should be."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from support import troubled_cluster
from support.signing_in import Browser
from support.web_site import SeparateSite

Arrive = Callable[[str], Awaitable[Browser]]


@pytest.fixture(scope="package")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeparateSite]:
    found = SeparateSite(tmp_path_factory.mktemp("troubled") / "data", troubled_cluster.fill)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture(scope="package")
def cookies() -> dict[str, dict[str, str]]:
    """Of those who have signed in, by their tokens; attempts are limited."""
    return {}


@pytest.fixture
async def arrive(
    troubled: SeparateSite, cookies: dict[str, dict[str, str]]
) -> AsyncIterator[Arrive]:
    """Browsers of users, by their tokens."""
    async with contextlib.AsyncExitStack() as stack:

        async def arrives(token: str) -> Browser:
            browser = await stack.enter_async_context(Browser(troubled.address))
            if token not in cookies:
                assert (await browser.sign_in(token)).status == 303
                cookies[token] = browser.cookies
            browser.cookies = cookies[token]
            return browser

        yield arrives


@pytest.fixture
async def admin_of_troubled(troubled: SeparateSite, arrive: Arrive) -> Browser:
    return await arrive(troubled.administrator)
