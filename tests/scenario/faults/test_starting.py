"""Roles that start while their server is away begin once it is there, and write nothing again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from support.examples import first


async def _restarted_agent(site: Any) -> None:
    [node] = site.world.nodes.values()
    await site.world.kill_agent(node)
    await site.agent.stop()
    starting = asyncio.create_task(site.world.start_agent(node))
    await site.time.passes(20)
    await site.agent.start()
    await site.time.passes(20)
    await starting


async def _restarted_manager(site: Any) -> None:
    await site.world.kill_manager()
    await site.manager.stop()
    starting = asyncio.create_task(site.world.start_manager())
    await site.time.passes(20)
    await site.manager.start()
    await site.time.passes(20)
    await starting


@pytest.mark.parametrize("restarted", first(_restarted_agent, _restarted_manager))
async def test_a_role_that_starts_in_an_outage_changes_nothing(site: Any, restarted: Any) -> None:
    await site.change()
    await site.reached()
    await site.rest()
    hardware, written = len(site.hardware), len(site.writes)

    await restarted(site)

    await site.rest()
    assert len(site.hardware) == hardware
    assert [one.what for one in site.writes[written:]] == []
