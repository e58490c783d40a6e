"""What the webhook refuses, as it is told by Terraform: when planned, and with what to do."""

from __future__ import annotations

import pytest

from laneway.api import PCIDeviceClaim
from laneway.kube.resource import served
from support.terraform import Terraform
from support.worlds import World

NIC, RESOURCE = "node1-000004001", "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def reviewed() -> bool:
    return True


def claim(device: str = NIC) -> str:
    return f'resource "laneway_pci_claim" "nic" {{\n  device = "{device}"\n  timeout = 2\n}}\n'


async def test_a_claim_that_a_stopped_vm_names_is_not_destroyed(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    await terraform.apply(claim())
    [state] = (await terraform.state()).values()
    assert state["user_name"] == "admin"
    await world.allocatable("node1", RESOURCE, 1)
    await world.make_vm("web", host_devices=[RESOURCE])
    await world.running("web")
    await world.stop_vm("web")
    kept = await terraform.destroy(status=1)
    assert (
        f"Pcideviceclaim {NIC} is already in use with VM default/web (it is stopped" in kept.words
    )
    await world.client.get(served(PCIDeviceClaim), NIC)
    await world.delete_vm("web")
    await terraform.destroy()


async def test_the_webhook_refuses_when_planned(world: World, terraform: Terraform) -> None:
    await world.add("node1", "a2")
    vgpu = 'resource "laneway_pci_claim" "function" {\n  device = "node1-000008004"\n}\n'
    await world.vgpu("node1-000008004", "NVIDIA A2-4Q")
    refused = await terraform.plan(vgpu, status=1)
    assert 'device = "node1-000008004"' in refused.words
    assert "Refused" in refused.words
