"""A VM goes to the GPU that is in use already, though the scheduler alone would spread VMs."""

from __future__ import annotations

from typing import Any

from laneway.simcluster.objects import PLACED_PODS
from support.kubectl import Kubectl
from support.worlds import NAMESPACE, World

VGPU = "nvidia.com/NVIDIA_A2-8Q"


async def test_the_second_vm_leaves_the_other_gpu_whole(
    world: World, admin: Kubectl, make_vm: Any
) -> None:
    for node in ("node1", "node2"):
        await world.add(node, "a2")
        for function in ("4", "5"):
            await world.vgpu(f"{node}-00000800{function}", "NVIDIA A2-8Q")
        await world.allocatable(node, VGPU, 2)

    await admin.apply(make_vm("one", "Always", gpus=[("a", VGPU)]))
    first = (await world.running("one")).status.node_name
    assert not await _preferred(world, "one")  # Both nodes were alike.

    await admin.apply(make_vm("two", "Always", gpus=[("a", VGPU)]))
    assert (await world.running("two")).status.node_name == first
    other = {"node1", "node2"} - {first}
    assert await _preferred(world, "two") == {first: 100, other.pop(): 50}


async def _preferred(world: World, vm: str) -> dict[str, int]:
    pod = await world.client.get(PLACED_PODS, (await world.pod(vm)).metadata.name, NAMESPACE)
    terms = pod.spec.affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    return {term.preference.match_fields[0].values[0]: term.weight for term in terms}
