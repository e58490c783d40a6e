"""`laneway_sriov_gpu`, `laneway_vgpu_layout` and `laneway_mig_configuration`."""

from __future__ import annotations

import asyncio

import pytest

from laneway.api import CoreNode, MigConfiguration, SRIOVGPUDevice, VGPULayout
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from support.gpu_modes import MANAGE
from support.terraform import Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(240)
GPU, FIRST = "node1-000008000", "node1-000008004"
RESOURCE = "nvidia.com/NVIDIA_A2-4Q"


def gpu(more: str = "") -> str:
    return f'resource "laneway_sriov_gpu" "a2" {{\n  gpu = "node1/08:00.0"\n  {more}\n}}\n'


def layout(vgpus: str = '{ "A2-4Q" = 2 }', more: str = "") -> str:
    return (
        f'resource "laneway_vgpu_layout" "a2" {{\n  name  = "all"\n  nodes = ["node1"]\n'
        f"  vgpus = {vgpus}\n  {more}\n}}\n"
    )


async def configured(world: World) -> dict[str, int]:
    found = await world.client.get(served(SRIOVGPUDevice), GPU)
    return dict(found.status.configured)


async def disabled(world: World) -> None:
    """A GPU without virtual functions."""
    await world.add("node1", "a2")
    await world.client.patch(served(SRIOVGPUDevice), GPU, {"spec": {"enabled": False}})
    await world.until(served(SRIOVGPUDevice), GPU, lambda one: not one.status.vf_addresses)


async def test_a_gpu_is_enabled_its_mode_changed_and_disabled(
    world: World, terraform: Terraform
) -> None:
    await disabled(world)
    text = gpu() + (
        'resource "laneway_vgpu" "first" {\n'
        '  device  = laneway_sriov_gpu.a2.vgpu_devices[0]\n  profile = "A2-4Q"\n}\n'
    )
    await terraform.apply(text)
    state = await terraform.state()
    assert state["laneway_sriov_gpu.a2"]["id"] == GPU
    assert state["laneway_sriov_gpu.a2"]["current_mode"] == "SameSize"
    assert len(state["laneway_sriov_gpu.a2"]["virtual_functions"]) == 16
    assert state["laneway_vgpu.first"]["device"] == FIRST
    await terraform.settled()

    unknown = await terraform.validate(gpu('mode = "Mixed"'), status=1)
    assert "Unknown mode" in unknown.words
    none = await terraform.plan(gpu('mode = "MIG"') + text.partition("}\n")[2], status=1)
    assert 'mode = "MIG"' in none.words
    assert "Refused" in none.words

    await terraform.apply(gpu())
    await terraform.settled()
    await terraform.destroy()
    found = await world.client.get(served(SRIOVGPUDevice), GPU)
    assert (found.spec.enabled, list(found.status.vf_addresses)) == (False, [])


async def test_a_gpu_that_was_switched_off_is_switched_on_again(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    terraform.write(gpu())
    await terraform.run("import", "-no-color", "laneway_sriov_gpu.a2", GPU)
    # The import knows the name only; the configuration says NODE/ADDRESS.
    replaced = await terraform.plan()
    assert "must be replaced" in replaced.out
    terraform.write(gpu().replace("node1/08:00.0", GPU))
    await terraform.settled()
    await world.client.patch(served(SRIOVGPUDevice), GPU, {"spec": {"enabled": False}})
    await world.until(served(SRIOVGPUDevice), GPU, lambda one: not one.status.vf_addresses)
    assert "1 to change" in (await terraform.plan()).out
    await terraform.apply()
    found = await world.client.get(served(SRIOVGPUDevice), GPU)
    assert len(found.status.vf_addresses) == 16


async def test_a_layout_from_its_first_vgpus_to_its_end(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await terraform.apply(layout())
    [state] = (await terraform.state()).values()
    assert (state["id"], state["selected_gpus"]) == ("all", [GPU])
    assert await configured(world) == {"NVIDIA A2-4Q": 2}
    await terraform.settled()
    await world.allocatable("node1", RESOURCE, 2)

    changed = await terraform.apply(layout('{ "NVIDIA A2-8Q" = 1 }'))
    assert "1 changed" in changed.out
    assert await configured(world) == {"NVIDIA A2-8Q": 1}

    too_many = await terraform.plan(layout('{ "A2-8Q" = 4 }'), status=1)
    assert '"A2-8Q" = 4' in too_many.words
    assert "Refused" in too_many.words
    wrong = await terraform.plan(layout('{ "A2-8Z" = 1 }'), status=1)
    assert "has no profile A2-8Z" in wrong.words
    assert await configured(world) == {"NVIDIA A2-8Q": 1}

    terraform.write(layout('{ "NVIDIA A2-8Q" = 1 }').replace('"a2"', '"b"'))
    twice = await terraform.run("import", "-no-color", "laneway_vgpu_layout.b", "all", status=0)
    assert "Import successful" in twice.words
    await terraform.run("state", "rm", "laneway_vgpu_layout.a2")
    await terraform.settled()

    await terraform.destroy()
    assert await configured(world) == {}
    with pytest.raises(NotFoundError):
        await world.client.get(served(VGPULayout), "all")


async def test_a_layout_in_use_stays_until_its_vm_is_gone(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await terraform.apply(layout(more="timeout = 2"))
    await world.allocatable("node1", RESOURCE, 2)
    await world.make_vm("web", host_devices=[RESOURCE])
    await world.running("web")
    changed = await terraform.plan(layout('{ "A2-8Q" = 1 }'), status=1)
    assert "VM default/web" in changed.words
    kept = await terraform.destroy(status=1)
    assert "VM default/web" in kept.words
    assert await configured(world) == {"NVIDIA A2-4Q": 2}

    await terraform.apply(layout(more="timeout = 60"))
    destroying = asyncio.create_task(terraform.destroy())
    await world.stop_vm("web")
    await world.delete_vm("web")
    await destroying
    assert await configured(world) == {}


async def test_labels_that_a_layout_no_longer_names_are_gone(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    labels = {"metadata": {"labels": {"zone": "a", "rack": "1"}}}
    await world.client.patch(served(CoreNode), "node1", labels)
    await terraform.apply(layout(more='node_labels = { zone = "a", rack = "1" }'))
    await terraform.apply(layout(more='node_labels = { zone = "a" }'))
    found = await world.client.get(served(VGPULayout), "all")
    assert dict(found.spec.node_selector.match_labels) == {"zone": "a"}
    await terraform.settled()


async def test_two_layouts_do_not_have_one_gpu(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await terraform.apply(layout())
    other = layout().replace('"a2"', '"b"').replace('"all"', '"other"')
    refused = await terraform.plan(layout() + other, status=1)
    assert 'nodes = ["node1"]' in refused.words
    assert "VGPULayout all" in refused.words


async def test_gpu_instances_are_made_changed_refused_and_deleted(
    world: World, terraform: Terraform
) -> None:
    node = await world.add("node1", "a100")
    await world.kill_agent(node)
    resource = served(SRIOVGPUDevice)
    [page] = [page async for page in world.client.list(resource)]
    found = resource.decode(page.items[0])
    assert node.host.call([MANAGE, "-d", found.spec.address]).status == 0
    await world.start_agent(node)
    name = found.metadata.name

    def text(instances: str) -> str:
        return (
            f'resource "laneway_sriov_gpu" "a" {{\n  gpu  = "{name}"\n  mode = "MIGBacked"\n}}\n'
            'resource "laneway_mig_configuration" "a" {\n  gpu = laneway_sriov_gpu.a.id\n'
            f"  instances = {instances}\n}}\n"
        )

    await terraform.apply(text('{ "1g.5gb" = 2, "3g.20gb" = 1 }'))
    mig = await world.client.get(served(MigConfiguration), name)
    counts = {one.name: len(one.vgpu_ids) for one in mig.status.profile_status if one.vgpu_ids}
    assert counts == {"MIG 1g.5gb": 2, "MIG 3g.20gb": 1}
    await terraform.settled()

    await terraform.apply(text('{ "1g.5gb" = 3 }'))
    await terraform.settled()
    unknown = await terraform.plan(text('{ "1g.6gb" = 1 }'), status=1)
    assert "The GPU has no GPU instances 1g.6gb. Is it 1g.5gb" in unknown.words
    many = await terraform.apply(text('{ "1g.5gb" = 8 }'), status=1)
    assert "Refused" in many.words
    mig = await world.client.get(served(MigConfiguration), name)
    assert [len(one.vgpu_ids) for one in mig.status.profile_status if one.vgpu_ids] == [3]

    terraform.write(text('{ "1g.5gb" = 3 }'))
    await terraform.run("state", "rm", "laneway_mig_configuration.a")
    await terraform.run("import", "-no-color", "laneway_mig_configuration.a", name)
    await terraform.settled()
    await terraform.destroy()
    mig = await world.client.get(served(MigConfiguration), name)
    assert not any(one.vgpu_ids for one in mig.status.profile_status)
