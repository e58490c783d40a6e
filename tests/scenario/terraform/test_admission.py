"""What the webhook refuses, as it is told by Terraform: when planned, and with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.api import PCIDeviceClaim
from laneway.kube.resource import served
from support.reviewed import TOKEN
from support.terraform import Terraform
from support.worlds import World

NIC, RESOURCE = "node1-000004001", "intel.com/I350_GIGABIT_NETWORK_CONNECTION"
SECRET = "s3cr3t-of-a-stranger"
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
    await world.until(served(PCIDeviceClaim), NIC, lambda one: one.status.allocation is not None)
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


async def test_credentials_that_are_not_accepted_are_told_and_kept_secret(
    world: World, terraform: Terraform
) -> None:
    await world.add("node1", "a2")
    terraform.kubeconfig = stranger(terraform.kubeconfig)
    refused = await terraform.plan(claim(), status=1)
    assert "Not logged in" in refused.words
    assert SECRET not in refused.words
    assert not [one for one in files(terraform.folder) if SECRET.encode() in one.read_bytes()]


def stranger(kubeconfig: str) -> str:
    """The same with a token that the server does not know."""
    path = Path(kubeconfig).with_name("stranger")
    path.write_text(Path(kubeconfig).read_text().replace(TOKEN, SECRET))
    assert SECRET in path.read_text()
    return str(path)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
