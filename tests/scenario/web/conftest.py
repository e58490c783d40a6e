"""A site with a cluster in which much is not as it should be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from support import troubled_cluster
from support.signing_in import Browser
from support.web_site import SeparateSite


@pytest.fixture(scope="package")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeparateSite]:
    found = SeparateSite(tmp_path_factory.mktemp("troubled") / "data", troubled_cluster.fill)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
async def admin_of_troubled(troubled: SeparateSite) -> AsyncIterator[Browser]:
    async with Browser(troubled.address) as browser:
        await browser.sign_in(troubled.administrator)
        yield browser
