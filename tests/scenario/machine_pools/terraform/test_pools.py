"""`laneway_machine_pool_devices`: set, refused, drifted, imported, emptied; and the example."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from laneway.kube.rancher import GUEST_CLUSTERS, HARVESTER_CONFIGS
from support.terraform import REPOSITORY, Terraform
from support.worlds import World

Make = Callable[..., Awaitable[Any]]
pytestmark = pytest.mark.timeout(300)
NAMESPACE = "fleet-default"
Q4, RESOURCE = "NVIDIA A2-4Q", "nvidia.com/NVIDIA_A2-4Q"
CONFIG = "nc-guest-gpu"
EXAMPLE = REPOSITORY / "docs/examples/terraform/guest-cluster/main.tf"


def pool(devices: str, more: str = "") -> str:
    return (
        'resource "laneway_machine_pool_devices" "gpu" {\n  cluster = "guest"\n  pool    = "gpu"\n'
        f"  devices = {devices}\n  {more}\n}}\n"
    )


async def nodes(world: World, vgpus: int = 2) -> None:
    for node in ("node1", "node2"):
        await world.add(node, "a2")
        for number in range(vgpus):
            await world.vgpu(f"{node}-00000800{4 + number}", Q4)
    for node in ("node1", "node2"):
        await world.allocatable(node, RESOURCE, vgpus)


async def info(world: World) -> str:
    found = await world.client.get(HARVESTER_CONFIGS, CONFIG, NAMESPACE)
    return found.vgpu_info


async def test_a_pool_gets_devices_and_gives_them_back(
    world: World, terraform: Terraform, guest: Make, machines: Make
) -> None:
    await nodes(world)
    await guest(gpu={"quantity": 2, "cpuCount": "2", "memorySize": "2"})
    await machines(2)
    one = f'{{ "{RESOURCE}" = 1 }}'
    too_many = await terraform.plan(pool(one, "machines = 5"), status=1)
    assert f"devices = {one}" in too_many.words
    assert "there is enough for" in too_many.words
    assert await info(world) == ""
    unknown = await terraform.plan(pool('{ "A2-4Q" = 1 }'), status=1)
    assert "A2-4Q is not the name of a resource" in unknown.words
    missing = await terraform.plan(pool(one).replace('"guest"', '"gues"'))
    assert "There is no guest cluster fleet-default/gues. Is it" in missing.words

    await terraform.apply(pool(one))
    [state] = (await terraform.state()).values()
    assert (state["id"], state["current_machines"]) == (f"{NAMESPACE}/guest/gpu", 2)
    [vm, _] = await machines(2)
    assert [one.device_name for one in vm.spec.template.spec.domain.devices.all] == [RESOURCE]
    await terraform.settled()

    await terraform.apply(pool(one, "machines = 3"))
    assert len(await machines(3)) == 3
    body = {"vgpuInfo": ""}
    await world.client.patch(HARVESTER_CONFIGS, CONFIG, body, NAMESPACE)
    assert "1 to change" in (await terraform.plan()).out
    await terraform.apply()
    assert json.loads(await info(world))["vGPURequests"][0]["deviceName"] == RESOURCE

    address = "laneway_machine_pool_devices.gpu"
    await terraform.run("state", "rm", address)
    terraform.write(pool(one))
    await terraform.run("import", "-no-color", address, f"{NAMESPACE}/guest/gpu")
    await terraform.settled()
    wrong = await terraform.run("import", "-no-color", f"{address}2", "guest/gpu", status=1)
    assert wrong.status == 1

    await terraform.destroy()
    assert await info(world) == ""
    [vm, *_] = await machines(3)
    assert vm.spec.template.spec.domain.devices.all == ()


async def test_a_roll_out_that_gets_stuck_is_told_with_its_reason(
    world: World, terraform: Terraform, guest: Make, machines: Make
) -> None:
    await nodes(world, vgpus=1)
    await guest(gpu={"quantity": 1, "memorySize": "2"})
    await machines(1)
    await world.kill_kubevirt()
    late = await terraform.apply(pool(f'{{ "{RESOURCE}" = 1 }}', "timeout = 3"), status=1)
    assert "are not as desired within 3 s" in late.words
    assert "laneway pools show guest gpu" in late.words
    assert "laneway_machine_pool_devices.gpu" in await terraform.state()
    world.start_kubevirt()
    await terraform.apply(pool(f'{{ "{RESOURCE}" = 1 }}'))
    await machines(1)


async def test_the_example_of_a_guest_cluster(
    world: World, terraform: Terraform, guest: Make, machines: Make, tmp_path: Path
) -> None:
    await nodes(world)
    await guest("guest", gpu={"quantity": 1, "cpuCount": "2", "memorySize": "2"})
    await machines(1)
    terraform.write(EXAMPLE.read_text(), head=False)
    given = {
        "TF_VAR_harvester_kubeconfig": terraform.kubeconfig,
        "TF_VAR_rancher_kubeconfig": terraform.kubeconfig,
        "TF_VAR_cluster": "guest",
        "TF_VAR_pool": "gpu",
    }
    terraform.env |= given
    await terraform.apply()
    outputs = await terraform.outputs()
    assert outputs["vgpu_info"] == await info(world)
    assert "set vgpuInfo of HarvesterConfig nc-guest-gpu" in outputs["steps"]
    found = await world.client.get(GUEST_CLUSTERS, "guest", NAMESPACE)
    assert found.pools[0].quantity == 3
    for vm in await machines(3):
        assert [one.device_name for one in vm.spec.template.spec.domain.devices.all] == [RESOURCE]
    await terraform.destroy()
