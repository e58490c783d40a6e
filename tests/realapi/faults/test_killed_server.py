"""Agent and manager on an API server that is killed, or has forgotten the past meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from laneway.api import VGPUDevice
from laneway.kube.errors import UnreachableError
from laneway.kube.resource import served

FUNCTIONS = (4, 5, 6, 7)


async def test_a_server_is_killed_while_users_change_things(real: Any, node: Any) -> None:
    lines = [await node.line(real.admin) for _ in range(2)]
    await node.run(lines[0].config)
    manager = await node.manage(lines[1].config)

    async def change() -> None:
        for function in FUNCTIONS:
            await _insist(functools.partial(node.ask, function))

    changing = asyncio.create_task(change())
    await lines[0].until(lambda: lines[0].count("patch", "vgpudevices") > 20)
    await real.killed()
    await changing
    for function in FUNCTIONS:
        await node.configured(function)

    made = Counter(one.path for one in node.hardware if one.path.endswith("/create"))
    assert sorted(made.values()) == [1, 1, 1, 1]
    for line in lines:
        lost = Counter(one.where for one in line.asked if not one.answered)
        assert Counter(one.where for one in line.repeated()) <= lost
    assert manager.leading


async def _insist(attempt: Callable[[], Awaitable[None]]) -> None:
    """As a user does: once more, until it is done."""
    while True:
        with contextlib.suppress(UnreachableError):
            return await attempt()
        await asyncio.sleep(0.1)


async def test_a_compacted_history_is_made_up_for_by_a_list(real: Any, node: Any) -> None:
    line = await node.line(real.admin)
    await node.run(line.config)
    await node.ask(4)
    await node.claim()
    await node.configured(4)
    await node.bound()
    before = len(line.asked)

    line.passes.clear()
    line.cut()  # The watches that follow name versions of now, and wait.
    await line.until(lambda: line.count("watch", "vgpudevices") == 2)
    await node.ask(4, "")
    await node.ask(5)
    await node.admin.delete(served(VGPUDevice), node.vgpu(7))
    await real.compact()
    await real.killed()  # Its own memory of the past goes, too.
    line.passes.set()

    await node.configured(5)
    await node.configured(4, "")
    await node.until(VGPUDevice, node.vgpu(7), lambda one: bool(one.status.framework))
    asked = [one.verb for one in line.asked[before:] if one.resource == "vgpudevices"]
    reads = [verb for verb in asked if verb in {"list", "watch"}]
    assert reads.count("list") == 1
    assert reads.index("list") <= 2, "at the server's word, and not only because it was away"
    assert line.count("create", "vgpudevices") == 16 + 1, "the one that was deleted, once"
    assert len(node.hardware) == len({(one.path, one.data) for one in node.hardware})
