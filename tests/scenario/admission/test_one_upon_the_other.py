"""What is written before the caches know of the write before: judged as well as can be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from laneway.api import VGPUDevice
from laneway.kube.errors import ForbiddenError
from support.examples import first
from support.worlds import World

VGPU, SIBLING = "node1-000008004", "node1-000008005"
ALL, HALF = "NVIDIA A2-16Q", "NVIDIA A2-8Q"
RESOURCE = "nvidia.com/NVIDIA_A2-16Q"


@pytest.mark.slow
@pytest.mark.parametrize("then", [VGPU, SIBLING])
@pytest.mark.parametrize("waits", first(False, True))
async def test_a_profile_takes_the_place_of_another_at_once(
    world: World, cluster: Any, then: str, waits: bool
) -> None:
    await world.add("node1", "a2")
    await world.vgpu(VGPU, ALL)
    await cluster.disable(VGPU)
    if waits:
        await cluster.until(VGPUDevice, VGPU, lambda one: not one.status.configure_vgpu_type_name)
    await cluster.ask(then, HALF)
    await cluster.answer(then, "Configured")


async def test_two_vms_request_the_last_device_in_one_moment(world: World, cluster: Any) -> None:
    """Neither may know of the other yet. One runs; one that is admitted too waits in words."""
    await world.add("node1", "a2")
    await world.vgpu(VGPU, ALL)
    names = ("one", "two")
    asked = [world.make_vm(name, gpus=[RESOURCE]) for name in names]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = {n: a for n, a in zip(names, answers, strict=True) if isinstance(a, BaseException)}
    admitted = [name for name in names if name not in refused]
    for error in refused.values():
        assert isinstance(error, ForbiddenError)
        assert f"{RESOURCE}: 1 requested on one node" in str(error)
    states = {
        (await world.status(name, "Running", "ErrorUnschedulable")).status.printable_status: name
        for name in admitted
    }
    assert len(states) == len(admitted)
    if "ErrorUnschedulable" in states:
        assert RESOURCE in await world.unschedulable(states["ErrorUnschedulable"])
    await world.delete_vm(states["Running"])
    (left,) = {*names} - {states["Running"]}
    if left in refused:
        await world.make_vm(left, gpus=[RESOURCE])
    await world.running(left)
