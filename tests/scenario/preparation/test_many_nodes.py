"""A roll-out over fifty servers, some of which fail, under managers that are killed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.api import HostPolicy, HostPreparation
from laneway.core.keys import ANNOTATION_REBOOT
from laneway.core.rollout.node import AWAY
from laneway.kube.informer import Informer
from laneway.kube.resource import served
from laneway.sim.modules import RELEASE
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
NODES = 50
AT_ONCE = 5
INITRD = f"/boot/initrd.img-{RELEASE}"


async def wait(
    event: asyncio.Event, changed: asyncio.Event, informer: Informer[HostPreparation]
) -> None:
    """Wait as long as something changes, and say where the nodes are when nothing does."""
    while not event.is_set():
        changed.clear()
        try:
            await asyncio.wait_for(changed.wait(), 40)
        except TimeoutError:
            stages = Counter(
                (one.spec.rollout.stage, one.spec.rollout.message, one.status.stage)
                for one in informer.store
            )
            raise AssertionError(str(stages)) from None


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_never_more_nodes_are_away_than_allowed_under_any_leader(
    world: World, policy: Make, stage: Make
) -> None:
    names = [f"n{number:02}" for number in range(NODES)]
    for name in names:
        await world.add_server(name, "plain,iommu=off")
    luck = random.Random(5)
    informer = Informer(world.client, served(HostPreparation))
    most, finished, failed, changed = 0, asyncio.Event(), asyncio.Event(), asyncio.Event()

    def look(_before: Any, _after: Any) -> None:
        nonlocal most
        changed.set()
        stages = [one.spec.rollout.stage for one in informer.store]
        most = max(most, sum(stage in AWAY for stage in stages))
        if "Failed" in stages:
            failed.set()
        done = [one for one in informer.store if one.status.stage == "Ready"]
        if len(done) == NODES and not any(stages):
            finished.set()

    informer.subscribe(look)
    watching = asyncio.create_task(informer.run())
    await policy(when="Never", rollout={"maxUnavailable": "10%"})
    bad = luck.choice(names)
    await stage(bad, "RebootPending")
    world.nodes[bad].host.replace(INITRD, None)

    change = {"spec": {"rollout": {"reboot": {"when": "WhenFree"}}}}
    await world.client.patch(served(HostPolicy), "gpus", change)
    for _ in range(5):
        await world.restart_manager()
        await asyncio.sleep(luck.uniform(0.1, 1.0))
    await wait(failed, changed, informer)
    world.nodes[bad].host.replace(INITRD, "initial RAM disk")
    one = await stage(bad, "Failed")
    allowed = {"metadata": {"annotations": {ANNOTATION_REBOOT: one.status.boot_id}}}
    await world.client.patch(served(HostPreparation), bad, allowed)
    await world.restart_manager()
    await wait(finished, changed, informer)
    watching.cancel()

    assert 1 < most <= AT_ONCE
    assert {node.host.boots for node in world.nodes.values()} == {1}
