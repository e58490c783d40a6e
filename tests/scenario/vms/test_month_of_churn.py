"""A month in which VMs with vGPUs come and go, while agents and the manager are killed.

The planner's simulation says who comes and goes: VMs that live for six days on average and request
80 % of four GPUs on two nodes. Everything that is served is a vGPU that an agent has made and a VM
that has it open. No VM loses its vGPU or shares it, hardware and ledger agree whatever was killed,
in the end nothing is left, and as much is served as the planner says.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence

import pytest

from laneway.api import SRIOVGPUDevice
from laneway.controllers.timing import Timing
from laneway.core.packing.churn import Mix, by_policy, churn
from laneway.core.packing.policy import Choice, aware
from laneway.core.packing.room import Room, board_of
from laneway.core.vgpu.card import card_of
from laneway.kube.resource import served
from support.churning import Churn
from support.worlds import World

SEED = int(os.environ.get("LANEWAY_SEED") or 6)
NODES = ("node1", "node2")
SIZES = {4: 30, 6: 15, 8: 20, 12: 15, 16: 5, 24: 15}
"""GiB, and how many of a hundred requests have it, as `bench/packing.py` has it of this GPU."""
LIVES = 5
"""Mean life times in a month."""
LOAD = 0.8


@pytest.fixture
def reviewed() -> bool:
    """A webhook judges what is written."""
    return True


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_a_month_of_vms_that_come_and_go_is_served_as_planned_whatever_dies(
    world: World,
) -> None:
    world.cluster.timing = Timing(retry=1.0)
    gpus = [(name, gpu) for name in NODES for gpu in await mixed_gpus(world, name)]
    first = await world.client.get(served(SRIOVGPUDevice), gpus[0][1])
    board = board_of(card_of("26b9", first.status.fits), mixed=True)
    weights = tuple(float(SIZES.get(kind.framebuffer_mib // 1024, 0)) for kind in board.kinds)
    mix = Mix(weights, gpus=len(gpus), load=LOAD)
    mean = sum(gib * share for gib, share in SIZES.items()) / sum(SIZES.values())
    arrivals = round(LIVES * LOAD * board.region * len(gpus) / mean)
    life = Churn(world, board, gpus, random.Random(SEED))
    loop = asyncio.get_running_loop()

    def decide(rooms: Sequence[Room], size: int) -> Choice | None:
        return asyncio.run_coroutine_threadsafe(life.take(rooms, size), loop).result()

    try:
        async with life.running():
            # The simulation waits for each of its decisions, so it has a thread of its own.
            found = await asyncio.to_thread(
                churn, board, mix, decide, seed=SEED, arrivals=arrivals, before=0
            )
            await life.leave([*life.desks])
            await life.check_nothing_left()
    except BaseException as failure:
        failure.add_note(f"LANEWAY_SEED={SEED}: " + "; ".join(life.told[-60:]))
        raise
    plan = by_policy(board, aware, lowest=True)
    planned = churn(board, mix, plan, seed=SEED, arrivals=arrivals, before=0)
    assert found.memory == pytest.approx(planned.memory, abs=0.01)
    assert set(life.killed) == {"write", "agent", "manager"}, "nothing of a kind was killed"


async def mixed_gpus(world: World, node: str) -> list[str]:
    """A node whose GPUs take vGPUs of different sizes; their objects."""
    await world.add(node, "l40s")
    resource = served(SRIOVGPUDevice)
    pages = [page async for page in world.client.list(resource)]
    found = [resource.decode(item) for page in pages for item in page.items]
    names = sorted(one.metadata.name for one in found if one.spec.node_name == node)
    for name in names:
        spec = {"enabled": True, "mode": "MixedSize"}
        await world.client.patch(resource, name, {"spec": spec})
        await world.until(resource, name, lambda one: one.status.mode == "MixedSize")
        await world.until(resource, name, lambda one: bool(one.status.vgpu_devices))
    return names
