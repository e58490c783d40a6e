"""What a machine's spec says besides its devices, on its VM."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim

from laneway.api import find_condition
from laneway.kube import capv
from support.vcenter import Simulator
from support.vcenter_client import Client

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARDS = [
    {"networkName": "VM Network", "dhcp4": True, "macAddr": "00:50:56:00:00:07"},
    {"networkName": "DC0_DVPG0", "ipAddrs": ["10.0.0.7/24"], "macAddr": "00:50:56:00:00:08"},
]


@pytest.fixture
def config(
    vcenter: Simulator, log_in: Callable[[Simulator], vim.ServiceInstance]
) -> Callable[[str], Any]:
    """The configuration of a VM, as vCenter tells it."""
    client = Client(log_in(vcenter))
    return lambda name: client.at(f"vm/{name}").config


async def test_nesting_and_cards(
    works: Any, vcenter: Simulator, config: Callable[[str], Any]
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", nestedHV=True, network={"devices": CARDS})
    await works.lead()
    await works.until_ready("one")
    real = config("one")
    assert real.nestedHVEnabled
    cards = [one for one in real.hardware.device if isinstance(one, vim.vm.device.VirtualVmxnet3)]
    assert [card.macAddress for card in cards] == [card["macAddr"] for card in CARDS]
    assert cards[0].backing.deviceName == "VM Network"
    assert cards[1].backing.port.portgroupKey


async def test_several_cards_are_known_to_the_guest_by_the_addresses_that_they_got(
    works: Any, vcenter: Simulator, config: Callable[[str], Any]
) -> None:
    cards = [
        {"networkName": "VM Network", "dhcp4": True},
        {"networkName": "DC0_DVPG0", "ipAddrs": ["10.0.0.7/24"]},
    ]
    await works.cluster(vcenter)
    await works.machine("one", T4, network={"devices": cards})
    await works.lead()
    await works.until_ready("one")
    real = [
        one.macAddress
        for one in config("one").hardware.device
        if isinstance(one, vim.vm.device.VirtualVmxnet3)
    ]
    reported = json.loads(base64.b64decode(vcenter.vms()["one"]["extra"]["guestinfo.metadata"]))
    ethernets = reported["network"]["ethernets"]
    assert [ethernets[each]["match"]["macaddress"] for each in ("id0", "id1")] == real
    assert len(set(real)) == 2
    assert ethernets["id1"]["addresses"] == ["10.0.0.7/24"]
    assert len(vcenter.tasks("ReconfigVM_Task")) == 2


async def test_a_disk_that_the_template_does_not_have_is_reported(
    works: Any, vcenter: Simulator
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", additionalDisksGiB=[20])
    await works.lead()
    vm = await works.until_says("one", "VirtualMachineProvisioned", "NotFoundInVCenter")
    said = find_condition(vm.status.conditions, "VirtualMachineProvisioned")
    assert "does not have as many disks (1) as sizes are given (2)" in said.message
    assert vcenter.tasks() == []
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")


async def test_a_resource_that_is_no_quantity_is_reported(works: Any, vcenter: Simulator) -> None:
    await works.cluster(vcenter)
    await works.machine("one", resources={"limits": {"memory": "-1Gi"}})
    await works.lead()
    vm = await works.until_says("one", "VirtualMachineProvisioned", "InvalidSpec")
    said = find_condition(vm.status.conditions, "VirtualMachineProvisioned")
    assert said.message.startswith("spec.resources.limits.memory: ")


async def test_a_folder_with_slash_and_percent_in_its_name_is_found(
    works: Any, vcenter: Simulator, log_in: Callable[[Simulator], Any]
) -> None:
    root = log_in(vcenter).RetrieveContent().searchIndex.FindByInventoryPath("/DC0/vm")
    folder = root.CreateFolder("a%2f100%25")  # vCenter escapes these two in every name
    await works.cluster(vcenter)
    await works.machine("one", T4, folder="/DC0/vm/a%2f100%25")
    await works.lead()
    await works.until_ready("one")
    assert [vm.name for vm in folder.childEntity] == ["one"]
