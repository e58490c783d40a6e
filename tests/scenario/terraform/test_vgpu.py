"""`laneway_vgpu`: created, changed in place, replaced, drifted, imported, refused, destroyed."""

from __future__ import annotations

import asyncio

import pytest

from laneway.api import SRIOVGPUDevice, VGPUDevice
from laneway.kube.resource import served
from support.terraform import Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(240)
FIRST, SECOND = "node1-000008004", "node1-000008005"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"


def vgpu(profile: str = "A2-4Q", device: str = FIRST, more: str = "") -> str:
    return (
        f'resource "laneway_vgpu" "a" {{\n  device  = "{device}"\n  profile = "{profile}"\n'
        f"  {more}\n}}\n"
    )


async def profile_of(world: World, name: str) -> str:
    found = await world.client.get(served(VGPUDevice), name)
    return found.status.configure_vgpu_type_name


async def test_a_vgpu_from_its_first_apply_to_its_end(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    assert "Plan: 1 to add" in (await terraform.plan(vgpu())).out
    assert await profile_of(world, FIRST) == ""
    await terraform.apply()
    [state] = (await terraform.state()).values()
    assert (state["id"], state["node"], state["profile"]) == (FIRST, "node1", "A2-4Q")
    assert state["resource_name"] == RESOURCE
    assert await profile_of(world, FIRST) == "NVIDIA A2-4Q"
    await world.allocatable("node1", RESOURCE, 1)
    await terraform.settled()

    changed = await terraform.apply(vgpu("A2-8Q"))
    assert "1 changed" in changed.out
    [state] = (await terraform.state()).values()
    assert state["resource_name"] == "nvidia.com/NVIDIA_A2-8Q"
    assert await profile_of(world, FIRST) == "NVIDIA A2-8Q"

    moved = await terraform.apply(vgpu("A2-8Q", SECOND))
    assert "1 added, 0 changed, 1 destroyed" in moved.out
    assert (await profile_of(world, FIRST), await profile_of(world, SECOND)) == (
        "",
        "NVIDIA A2-8Q",
    )

    nothing = {"spec": {"enabled": False}}
    await world.client.patch(served(VGPUDevice), SECOND, nothing)
    await world.until(served(VGPUDevice), SECOND, lambda one: not one.status.vgpu_status)
    assert "Plan: 1 to add" in (await terraform.plan()).out
    await terraform.apply()
    assert await profile_of(world, SECOND) == "NVIDIA A2-8Q"

    await terraform.destroy()
    assert await profile_of(world, SECOND) == ""


async def test_an_import_takes_a_vgpu_as_it_is(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await world.vgpu(FIRST, "NVIDIA A2-4Q")
    exists = await terraform.apply(vgpu("A2-8Q"), status=1)
    assert f"To manage it with Terraform: terraform import ADDRESS {FIRST}" in exists.words
    assert await profile_of(world, FIRST) == "NVIDIA A2-4Q"

    terraform.write(vgpu("NVIDIA A2-4Q"))
    await terraform.run("import", "-no-color", "laneway_vgpu.a", FIRST)
    await terraform.settled()
    missing = await terraform.run("import", "-no-color", "laneway_vgpu.b", "node9-1", status=1)
    assert "laneway_vgpu.b" in missing.words


async def test_a_vgpu_in_use_is_neither_changed_nor_destroyed(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await terraform.apply(vgpu(more="timeout = 2"))
    await world.allocatable("node1", RESOURCE, 1)
    await world.make_vm("web", host_devices=[RESOURCE])
    await world.running("web")

    kept = await terraform.destroy(status=1)
    assert f"Device {FIRST} is in use with VM default/web" in kept.words
    assert "kubectl edit vm web -n default" in kept.words
    assert list(await terraform.state()) == ["laneway_vgpu.a"]
    assert await profile_of(world, FIRST) == "NVIDIA A2-4Q"

    terraform.write(vgpu(more="timeout = 60"))
    await terraform.apply()
    destroying = asyncio.create_task(terraform.destroy())
    await asyncio.sleep(0)
    await world.stop_vm("web")
    await world.delete_vm("web")
    await destroying
    assert await profile_of(world, FIRST) == ""


async def test_refusals_are_shown_at_their_attributes_when_planned(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    unknown = await terraform.plan(vgpu("A2-3Q"), status=1)
    assert 'profile = "A2-3Q"' in unknown.words
    assert "The GPU has no profile A2-3Q. Did you mean" in unknown.words
    await world.vgpu(SECOND, "NVIDIA A2-8Q")
    await world.until(
        served(VGPUDevice),
        FIRST,
        lambda one: "NVIDIA A2-4Q" not in one.status.available_types,
    )
    full = await terraform.plan(vgpu("A2-4Q"), status=1)
    assert 'profile = "A2-4Q"' in full.words
    assert "all of its vGPUs have one size in mode SameSize" in full.words
    both = await terraform.validate(vgpu(more='gpu = "node1-000008000"'), status=1)
    assert "Which virtual function is not clear" in both.words
    odd = await terraform.validate(vgpu(more="timeout = 0.5"), status=1)
    assert "Write whole seconds from 1 to 86400" in odd.words
    later = await terraform.plan(vgpu(device="node1-00000800f"))
    assert "The cluster has no VGPUDevice node1-00000800f" in later.words
    never = await terraform.apply(status=1)
    assert "No such virtual function" in never.words


async def test_twenty_vgpus_take_free_functions_of_their_gpus(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "l40s")
    gpus = [gpu for gpu in await names(world) for _ in range(10)]
    text = "".join(
        f'resource "laneway_vgpu" "v{n}" {{\n  gpu     = "{gpu}"\n  profile = "L40S-4Q"\n}}\n'
        for n, gpu in enumerate(gpus)
    )
    done = await terraform.apply(text, "-parallelism=20")
    assert "20 added" in done.out
    state = await terraform.state()
    assert len({one["device"] for one in state.values()}) == 20
    await terraform.settled()
    await terraform.destroy()


async def names(world: World) -> list[str]:
    resource = served(SRIOVGPUDevice)
    pages = world.client.list(resource)
    return [resource.decode(one).metadata.name async for page in pages for one in page.items]


async def test_a_profile_that_is_known_only_after_apply(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    text = (
        'resource "terraform_data" "name" {\n  input = "node1-000008004"\n}\n'
        'resource "laneway_vgpu" "a" {\n  device  = "node1-000008004"\n'
        '  profile = "${trimspace(terraform_data.name.output) == "" ? "A2-8Q" : "A2-4Q"}"\n}\n'
        'output "resource" {\n  value = laneway_vgpu.a.resource_name\n}\n'
    )
    await terraform.apply(text)
    assert (await terraform.outputs())["resource"] == RESOURCE
    await terraform.settled()
