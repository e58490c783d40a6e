"""The vCenter in memory does what the port says; `tests/vcenter/adapter` has the same tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from laneway.vsphere.port import Credentials, VCenter
from support.memory_vcenter import Connection, MemoryVCenter, connect
from support.port_contract.inventory import *  # noqa: F403 - the tests
from support.port_contract.orders import *  # noqa: F403 - the tests
from support.port_contract.rules import *  # noqa: F403 - the tests


@pytest.fixture
async def log_into() -> AsyncIterator[Callable[[MemoryVCenter], Awaitable[VCenter]]]:
    """Connections that end with the test."""
    async with AsyncExitStack() as stack:

        async def into(there: MemoryVCenter) -> VCenter:
            credentials = Credentials(there.user, there.password, thumbprint=there.thumbprint)
            return await stack.enter_async_context(await connect(there.server, credentials))

        yield into


@pytest.fixture
async def connection(
    vcenter: MemoryVCenter, log_into: Callable[[MemoryVCenter], Awaitable[Connection]]
) -> Connection:
    """Logged in at one with the sample inventory."""
    return await log_into(vcenter)
