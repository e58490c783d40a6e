"""The kernel's log, and what Laneway leaves in it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from laneway.core.kernel.log import CAUGHT_UP
from laneway.core.plan import Plan, ResetFunction
from laneway.host.plans.execute import execute
from laneway.host.port import Host
from laneway.host.xids import KERNEL_LOG, parse_reset
from support.machines import SECONDS, hardware


@contextlib.asynccontextmanager
async def reading(host: Host) -> AsyncIterator[AsyncIterator[str]]:
    async with asyncio.timeout(SECONDS), host.kernel_messages() as messages:
        yield messages


async def present(host: Host) -> list[str]:
    """What is in the log now."""
    found = []
    async with reading(host) as messages:
        async for message in messages:
            if message == CAUGHT_UP:
                break
            found.append(message)
    return found


@pytest.fixture
def host(shared_group: Any) -> Host:
    found: Host = shared_group.host
    return found


async def test_who_begins_to_read_gets_what_was_said_before_and_then_what_comes(
    host: Host, request: pytest.FixtureRequest
) -> None:
    name = f"laneway test {request.node.name}"
    host.write(KERNEL_LOG, f"{name}: one\n")
    host.write(KERNEL_LOG, f"{name}: two\n")
    own = []
    async with reading(host) as messages:
        async for message in messages:
            if message == CAUGHT_UP:
                break
            own += [message] if name in message else []
        assert own == [f"{name}: one", f"{name}: two"]
        host.write(KERNEL_LOG, f"{name}: three\n")
        async for message in messages:
            if name in message:
                assert message == f"{name}: three"
                break


async def test_every_reader_gets_everything(host: Host, request: pytest.FixtureRequest) -> None:
    line = f"laneway test {request.node.name}"
    host.write(KERNEL_LOG, f"{line}\n")
    assert line in await present(host)
    assert line in await present(host)


async def test_a_reset_is_written_down(nvme: Any, tmp_path: Path) -> None:
    nvme.switch(1)
    [function] = nvme.virtfns()
    plan = Plan((ResetFunction(function),))
    await execute(hardware(nvme.machine, tmp_path), plan, actor="test", reason="contract")
    resets = [parse_reset(line) for line in await present(nvme.host)]
    assert [reset for reset in resets if reset][-1:] == [function]
