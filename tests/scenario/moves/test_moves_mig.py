"""`laneway plan moves --apply` for vGPUs in GPU instances, from the command to the hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.api import MigConfiguration, SRIOVGPUDevice, VGPUDevice, VGPULayout
from laneway.changes import instances as divided
from laneway.changes.moving.all_moves import carry_out
from laneway.cli.planning.moving import work_of
from laneway.core.fleet.moves import least_moves
from laneway.kube.resource import served
from laneway.simcluster.objects import NODES
from support.commands import Laneway, shell
from support.layouts import make
from support.moving import Hooked, profiles, reading, reserved
from support.worlds import SimNode, World

ONE, THREE, FOUR = (f"GRID A100-{size}" for size in ("1-5C", "3-20C", "4-20C"))
APPLY = ("plan", "moves", "A100-4-20C", "--apply", "--yes")
DONE = "Done. Now there is room for A100-4-20C on node1-000017000."
GPUS = ("node1-000017000", "node2-000017000")
FIRST = {GPUS[0]: (ONE, "1g.5gb"), GPUS[1]: (THREE, "3g.20gb")}
"""Each GPU has this vGPU at its first place, which a 4g.20gb on the first would need."""


async def by_layout(world: World, gpu: str) -> None:
    vgpus = [{"profile": FIRST[gpu][0], "count": 1}]
    await make(world, gpu, gpuSelector={"names": [gpu]}, vgpus=vgpus)


async def one_by_one(world: World, gpu: str) -> None:
    """As clients of Harvester do it: the mode, the GPU instance, and the vGPU of one function."""
    profile, instance = FIRST[gpu]
    devices, divisions = served(SRIOVGPUDevice), served(MigConfiguration)
    await world.client.patch(devices, gpu, {"spec": {"enabled": True, "mode": "MIGBacked"}})
    shared = await world.until(devices, gpu, lambda one: one.status.mode == "MIGBacked")
    stored = await world.until(divisions, gpu, lambda one: bool(one and one.status.profile_status))
    spec = divided.fields(stored, {instance: 1})
    await world.client.patch(divisions, gpu, {"spec": spec})
    await world.until(divisions, gpu, lambda one: one.status.status == "synced")
    await world.vgpu(shared.status.vgpu_devices[0], profile)


async def two_nodes(world: World, *, layouts: bool) -> list[SimNode]:
    """The VM `on-node1` is stopped, and `on-node2` runs."""
    found = []
    for gpu, (profile, _) in FIRST.items():
        node = gpu.partition("-")[0]
        found.append(await world.add(node, "a100"))
        await (by_layout if layouts else one_by_one)(world, gpu)
        resource = f"nvidia.com/{profile.replace(' ', '_')}"
        await world.allocatable(node, resource, 1)
        await world.make_vm(f"on-{node}", gpus=[resource])
        await world.running(f"on-{node}")
    await world.stop_vm("on-node1")
    await reserved(world, "node1-000017004", VGPUDevice)
    return found


async def instances(world: World, gpu: str) -> dict[str, list[int]]:
    """Where the GPU instances of a GPU begin, by profile."""
    stored = await world.client.get(served(MigConfiguration), gpu)
    return {
        one.name: list(one.placements) for one in stored.status.profile_status if one.placements
    }


@pytest.mark.parametrize("layouts", [False, pytest.param(True, marks=pytest.mark.slow)])
async def test_a_vgpu_that_moves_gets_a_gpu_instance_next_to_those_in_use(
    world: World, laneway: Laneway, tmp_path: Path, *, layouts: bool
) -> None:
    nodes = await two_nodes(world, layouts=layouts)
    refused = await shell(await reading(world, tmp_path))(*APPLY, status=1)
    lacks = "you may not patch migconfigurations.devices.harvesterhci.io."
    assert (lacks in refused.err) is not layouts
    done = await laneway(*APPLY)
    assert done.lines[-1] == DONE
    assert [profiles(node) for node in nodes] == [[], [THREE, ONE]]
    assert await instances(world, GPUS[1]) == {"MIG 3g.20gb": [0], "MIG 1g.5gb": [4]}
    await world.run_vm("on-node1", on=True)
    assert (await world.running("on-node1")).status.node_name == "node2"
    if layouts:  # There is room in fact: the instance that is left gives way.
        spec = {"spec": {"vgpus": [{"profile": FOUR, "count": 1}]}}
        stored = await world.client.patch(served(VGPULayout), GPUS[0], spec)
        accepted = stored.metadata.generation

        def is_done(layout: VGPULayout) -> bool:
            [entry] = layout.status.gpus
            return (entry.state, entry.accepted_generation) == ("Done", accepted)

        await world.until(served(VGPULayout), GPUS[0], is_done)
        assert profiles(nodes[0]) == [FOUR]


@pytest.mark.slow
async def test_a_gpu_instance_that_was_made_in_vain_is_destroyed_again(world: World) -> None:
    nodes = await two_nodes(world, layouts=False)
    before = (await world.client.get(served(MigConfiguration), GPUS[1])).spec

    async def start() -> None:
        # Or it may get the vGPU that has just been made there.
        await world.client.patch(NODES, "node2", {"spec": {"unschedulable": True}})
        await world.run_vm("on-node1", on=True)
        await world.running("on-node1")

    hook = Hooked("waiting for the agent of node2", start)
    work = work_of(world.client, 60, hook)
    found = least_moves((await work.look()).fleet, {FOUR: 1})
    result = await carry_out(work, found, {FOUR: 1})
    await hook.done()
    assert (result.failed, result.kept) == (found.moves[0], ()), result.why
    assert [profiles(node) for node in nodes] == [[ONE], [THREE]]
    assert await instances(world, GPUS[1]) == {"MIG 3g.20gb": [0]}
    assert (await world.client.get(served(MigConfiguration), GPUS[1])).spec == before
