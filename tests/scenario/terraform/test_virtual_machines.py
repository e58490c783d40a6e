"""`laneway_virtual_machine_devices`: attached, changed, kept from running VMs, detached."""

from __future__ import annotations

import asyncio

import pytest

from laneway.kube.kubevirt import VIRTUAL_MACHINES
from support.terraform import Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(240)
NIC, RESOURCE = "node1-000004001", "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
VGPU, OF_VGPU = "node1-000008004", "nvidia.com/NVIDIA_A2-4Q"


def devices(entries: str, more: str = "") -> str:
    return (
        'resource "laneway_virtual_machine_devices" "web" {\n  virtual_machine = "web"\n'
        f"  devices = {entries}\n  {more}\n}}\n"
    )


async def has(world: World) -> dict[str, str]:
    vm = await world.client.get(VIRTUAL_MACHINES, "web", "default")
    return {one.name: one.device_name for one in vm.spec.template.spec.domain.devices.all}


async def test_devices_of_a_stopped_vm_come_change_and_go(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await world.vgpu(VGPU, "NVIDIA A2-4Q")
    await world.claim(NIC)
    await world.make_vm("web", host_devices=[RESOURCE], strategy="Halted")
    await terraform.apply(devices(f'{{ "vgpu-0" = "{OF_VGPU}" }}'))
    assert await has(world) == {"d0": RESOURCE, "vgpu-0": OF_VGPU}
    vm = await world.client.get(VIRTUAL_MACHINES, "web", "default")
    # A mediated device belongs to the list of GPUs, by the framework of the node's driver.
    assert [one.name for one in vm.spec.template.spec.domain.devices.gpus] == ["vgpu-0"]
    [state] = (await terraform.state()).values()
    assert (state["id"], state["restart_required"]) == ("default/web", False)
    await terraform.settled()

    taken = await terraform.apply(
        devices(f'{{ "vgpu-0" = "{OF_VGPU}", "d0" = "{OF_VGPU}" }}'), status=1
    )
    assert "VM default/web has another device d0 already" in taken.words
    await terraform.apply(devices(f'{{ "nic" = "{RESOURCE}" }}'))
    assert await has(world) == {"d0": RESOURCE, "nic": RESOURCE}
    odd = await terraform.validate(devices('{ "a" = "no resource" }'), status=1)
    assert "is not the name of a resource" in odd.words

    await terraform.run("state", "rm", "laneway_virtual_machine_devices.web")
    terraform.write(devices(f'{{ "nic" = "{RESOURCE}", "d0" = "{RESOURCE}" }}'))
    address = "laneway_virtual_machine_devices.web"
    await terraform.run("import", "-no-color", address, "default/web")
    await terraform.settled()
    await terraform.destroy()
    assert await has(world) == {}


async def test_a_running_vm_keeps_its_devices_until_it_stops(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await world.claim(NIC)
    await world.make_vm("web")
    await world.running("web")
    await terraform.apply(devices(f'{{ "nic" = "{RESOURCE}" }}', "timeout = 2"))
    [state] = (await terraform.state()).values()
    assert state["restart_required"]
    await world.stop_vm("web")
    await world.run_vm("web", on=True)
    await world.running("web")
    await terraform.settled()

    kept = await terraform.destroy(status=1)
    assert "KubeVirt detaches no device from a running VM" in kept.words
    assert "virtctl stop web -n default" in kept.words
    await terraform.apply(devices(f'{{ "nic" = "{RESOURCE}" }}', "timeout = 60"))
    destroying = asyncio.create_task(terraform.destroy())
    await world.stop_vm("web")
    await destroying
    assert await has(world) == {}


async def test_a_vm_that_is_still_to_be_made(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    later = await terraform.plan(devices(f'{{ "nic" = "{RESOURCE}" }}'))
    assert "The VM has to be there when it gets devices" in later.words
    never = await terraform.apply(status=1)
    assert "No such VM" in never.words
