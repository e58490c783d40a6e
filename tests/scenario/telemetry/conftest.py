"""A receiver of OTLP over HTTP, as a collector is one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from support.otlp_receiver import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found
