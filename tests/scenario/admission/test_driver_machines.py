"""Machines that Harvester's driver makes, from the API server through the webhook to QEMU."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.kube.kubevirt import ANNOTATION_ADMITTED
from support.harvester_driver import Release, machine
from support.kubectl import Kubectl
from support.worlds import World

ANY = "provisioned"
A2 = "nvidia.com/NVIDIA_A2-4Q"
L40S = {f"NVIDIA L40S-{size}Q": f"nvidia.com/NVIDIA_L40S-{size}Q" for size in (8, 12)}


async def devices_of(admin: Kubectl, name: str) -> Any:
    stored = await admin.get("vm", name)
    assert stored["metadata"]["annotations"][ANNOTATION_ADMITTED]
    return stored["spec"]["template"]["spec"]["domain"]["devices"]


async def test_machines_of_each_release_start_with_two_mediated_vgpus(
    world: World, admin: Kubectl
) -> None:
    await world.add("node1", "a2")
    for number in range(4, 8):
        await world.vgpu(f"node1-00000800{number}", "NVIDIA A2-4Q")
    await world.allocatable("node1", A2, 4)
    two = (ANY, A2), (ANY, A2)

    await admin.apply(machine(Release.V1_0_6, *two, name="guest-gpu-a-1"))
    await admin.apply(machine(Release.MASTER, *two, name="guest-gpu-b-2"))
    opened: list[str] = []
    for name in ("guest-gpu-a-1", "guest-gpu-b-2"):
        await world.running(name)
        opened += await world.opened(name)
    assert len({*opened}) == 4

    gpus = (await devices_of(admin, "guest-gpu-a-1"))["gpus"]
    assert [one["name"] for one in gpus] == [ANY, f"{ANY}-2"]
    shown = [one["virtualGPUOptions"]["display"]["enabled"] for one in gpus]
    assert shown == [True, False]
    hosts = (await devices_of(admin, "guest-gpu-b-2"))["hostDevices"]
    assert [one["name"] for one in hosts] == [ANY, f"{ANY}-2"]


@pytest.mark.slow
async def test_machines_of_each_release_start_with_vgpus_of_two_types(
    world: World, admin: Kubectl
) -> None:
    """They are functions of the vendor's framework, on two GPUs: host devices to KubeVirt."""
    await world.add("node1", "l40s")
    by_gpu: dict[str, list[str]] = {}
    for one in (await admin.get("vgpudevice"))["items"]:
        by_gpu.setdefault(one["spec"]["parentGPUDeviceAddress"], []).append(one["metadata"]["name"])
    for vgpus, (profile, resource) in zip(by_gpu.values(), L40S.items(), strict=True):
        for name in sorted(vgpus)[:2]:
            await world.vgpu(name, profile)
        await world.allocatable("node1", resource, 2)
    two = tuple((ANY, resource) for resource in L40S.values())
    for number, release in enumerate((Release.NEXT_BUILDER, Release.MASTER)):
        name = f"guest-gpu-x-{number}"
        await admin.apply(machine(release, *two, name=name))
        await world.running(name)
        hosts = (await devices_of(admin, name))["hostDevices"]
        assert {(one["name"], one["deviceName"]) for one in hosts} == {
            (ANY, two[0][1]),
            (f"{ANY}-2", two[1][1]),
        }
        assert len(await world.opened(name)) == 2
