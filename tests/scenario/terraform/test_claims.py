"""`laneway_pci_claim` and `laneway_usb_claim`: claimed, changed, refused, released."""

from __future__ import annotations

import asyncio
import signal

import pytest

from laneway.api import PCIDevice, PCIDeviceClaim, USBDevice, USBDeviceClaim
from laneway.kube.errors import NotFoundError
from laneway.kube.resource import served
from support.terraform import Terraform
from support.worlds import World

pytestmark = pytest.mark.timeout(240)
NIC, RESOURCE = "node1-000004001", "intel.com/I350_GIGABIT_NETWORK_CONNECTION"


def claim(device: str = NIC, more: str = "") -> str:
    return f'resource "laneway_pci_claim" "nic" {{\n  device = "{device}"\n  {more}\n}}\n'


async def gone(world: World, name: str = NIC) -> None:
    with pytest.raises(NotFoundError):
        await world.client.get(served(PCIDeviceClaim), name)


async def test_a_pci_device_from_its_claim_to_its_release(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    terraform.provider = '  user_name = "ada"'
    await terraform.apply(claim("node1/04:00.1"))
    [state] = (await terraform.state()).values()
    assert (state["id"], state["user_name"]) == (NIC, "ada")
    assert state["resource_name"] == RESOURCE
    await world.allocatable("node1", RESOURCE, 1)
    await terraform.settled()

    changed = await terraform.apply(claim("node1/04:00.1", "exact = true"))
    assert "1 changed" in changed.out
    [state] = (await terraform.state()).values()
    assert state["resource_name"] == f"intel.com/{NIC}"

    again = await terraform.apply(
        claim("node1/04:00.1", "exact = true").replace('"nic"', '"other"')
        + claim("node1/04:00.1", "exact = true"),
        status=1,
    )
    assert f"PCIDeviceClaim {NIC} exists, and Terraform has not made it" in again.words
    await terraform.destroy()
    await gone(world)


async def test_a_claim_in_use_waits_for_its_vm(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    await terraform.apply(claim(more="timeout = 2"))
    await world.allocatable("node1", RESOURCE, 1)
    await world.make_vm("web", host_devices=[RESOURCE])
    await world.running("web")
    kept = await terraform.destroy(status=1)
    assert "VM default/web" in kept.words
    assert "kubectl edit vm web -n default" in kept.words
    assert list(await terraform.state()) == ["laneway_pci_claim.nic"]
    await world.client.get(served(PCIDeviceClaim), NIC)

    await terraform.apply(claim(more="timeout = 60"))
    destroying = asyncio.create_task(terraform.destroy())
    await world.stop_vm("web")
    await world.delete_vm("web")
    await destroying
    await gone(world)


async def test_claims_that_are_refused_change_nothing(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    resource = served(PCIDevice)
    devices = [
        resource.decode(one) async for page in world.client.list(resource) for one in page.items
    ]
    critical = next(one for one in devices if one.status.critical).metadata.name
    refused = await terraform.plan(claim(critical), status=1)
    assert f'device = "{critical}"' in refused.words
    assert f"Pcidevice {critical} is critical to its node" in refused.words
    unknown = await terraform.plan(claim("node1/04:00.7"), status=1)
    assert "The cluster has no PCIDevice node1/04:00.7. Is it" in unknown.words
    await gone(world, critical)


async def test_a_claim_that_was_deleted_is_made_again_and_one_is_imported(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await world.claim(NIC)
    terraform.write(claim())
    await terraform.run("import", "-no-color", "laneway_pci_claim.nic", NIC)
    await terraform.settled()
    await world.release(NIC)
    assert "Plan: 1 to add" in (await terraform.plan()).out


async def test_a_usb_device_is_claimed_and_released(world: World, terraform: Terraform) -> None:
    await world.add("node1", "workstation")
    resource = served(USBDevice)
    [page] = [page async for page in world.client.list(resource)]
    name = resource.decode(page.items[0]).metadata.name
    await terraform.apply(f'resource "laneway_usb_claim" "key" {{\n  device = "{name}"\n}}\n')
    [state] = (await terraform.state()).values()
    assert (state["id"], state["node"]) == (name, "node1")
    assert state["resource_name"] == f"kubevirt.io/{name}"
    await terraform.settled()
    await terraform.destroy()
    with pytest.raises(NotFoundError):
        await world.client.get(served(USBDeviceClaim), name)


async def test_an_interrupted_apply_keeps_what_was_created(
    world: World, terraform: Terraform
) -> None:
    node = await world.add("node1", "a2")
    await world.kill_agent(node)
    terraform.write(claim())
    process = await terraform.started("apply", "-no-color", "-auto-approve")
    await world.until(served(PCIDeviceClaim), NIC, lambda one: one is not None)
    process.send_signal(signal.SIGINT)
    ended = await terraform.ended(process, status=1)
    assert "Interrupted. What was accepted goes on" in ended.words
    assert list(await terraform.state()) == ["laneway_pci_claim.nic"]
    await world.start_agent(node)
    await terraform.destroy()
    await gone(world)
