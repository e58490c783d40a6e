"""Devices of every kind in machine pools, from the choice to the VM that has them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.api import PCIDevice, VGPUDevice
from support.commands import Laneway
from support.rancher_form import resource_of, vgpu_offers
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
PROFILE = "NVIDIA RTX Pro 6000 Blackwell DC-24Q"
RESOURCE = "nvidia.com/NVIDIA_RTX_Pro_6000_Blackwell_DC-24Q"
pytestmark = pytest.mark.timeout(120)


@pytest.mark.slow
async def test_a_type_with_several_spaces_has_one_name_everywhere(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    """R1: only the first space was replaced, so such a type was never offered."""
    await world.add("node1", "rtx-pro-6000")
    name = min(one.metadata.name for one in await world.cluster.all(VGPUDevice))
    await world.vgpu(name, PROFILE)
    await world.allocatable("node1", RESOURCE, 1)  # the name of the device plugin

    shown = json.loads((await laneway("capacity", "-o", "json")).out)
    free = {one["resource"]: str(one["free"]) for one in shown["types"] if one["total"]}
    assert free == {RESOURCE: "1"}
    assert resource_of(PROFILE) != RESOURCE
    assert vgpu_offers([PROFILE], free) == ()

    await guest(gpu={"quantity": 0, "cpuCount": "2", "memorySize": "2"})
    short = PROFILE.removeprefix("NVIDIA ")
    await laneway("pools", "set", "guest", "gpu", short, "--machines", "1")
    [machine] = await machines(1)
    assert await world.opened(machine.metadata.name) != []
    [pool] = json.loads((await laneway("pools", "show", "guest", "-o", "json")).out)["pools"]
    assert pool["devices"] == {RESOURCE: 1}
    assert [one["devices"] for one in pool["machines"]] == [[name]]


async def test_devices_of_any_vendor_are_given_to_machines(
    world: World, laneway: Laneway, guest: Make, machines: Make
) -> None:
    """R8: only NVIDIA's vGPUs could be chosen."""
    pools = {}
    for node, model, vendor in (("amd", "mi210", "1002"), ("intel", "flex-170", "8086")):
        await world.add(node, model)
        found = [
            one
            for one in await world.cluster.all(PCIDevice)
            if one.status.node_name == node
            and one.status.vendor_id == vendor
            and one.status.class_id.startswith("03")
        ]
        claimed = await world.claim(min(one.metadata.name for one in found))
        pools[node] = claimed.metadata.name, claimed.status.resource_name
    nothing = {"quantity": 0, "cpuCount": "2", "memorySize": "2"}
    await guest(kind="LanewayConfig", **{node: dict(nothing) for node in pools})
    for node, (device, resource) in pools.items():
        await world.allocatable(node, resource, 1)
        await laneway("pools", "set", "guest", node, resource, "--machines", "1")
        await machines(1, node)
        shown = json.loads((await laneway("pools", "show", "guest", node, "-o", "json")).out)
        [pool] = [one for one in shown["pools"] if one["pool"] == node]
        assert pool["devices"] == {resource: 1}
        assert [one["devices"] for one in pool["machines"]] == [[device]]
    vendors = {resource.partition("/")[0] for _, resource in pools.values()}
    assert vendors == {"amd.com", "intel.com"}
