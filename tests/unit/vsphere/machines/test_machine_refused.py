"""What is not made at all, and says why in words."""

from __future__ import annotations

from typing import Any

import pytest

from laneway.api import find_condition
from laneway.kube import capv
from support.memory_vcenter import MemoryVCenter

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}


def words(vm: Any) -> str:
    found = find_condition(vm.status.conditions, "VirtualMachineProvisioned")
    return found.message if found else ""


async def test_a_field_that_is_not_carried_out_is_named_and_nothing_is_made(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4, tagIDs=["urn:vmomi:tag"], storagePolicyName="gold")
    await works.lead()
    vm = await works.until_says("one", "VirtualMachineProvisioned", "FieldNotSupported")
    assert "spec.tagIDs" in words(vm)
    assert "spec.storagePolicyName" in words(vm)
    assert vcenter.tasks() == []
    assert await works.names(capv.VSPHERE_VMS) == {"one"}
    await works.until(capv.VSPHERE_MACHINES, "one", lambda one: "spec.tagIDs" in words(one))
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"nestedHV": True}, "spec.nestedHV"),
        ({"peerToPeer": True}, "spec.peerToPeer"),
        (
            {"network": {"devices": [{"networkName": "VM Network", "ipAddrs": ["10.0.0.7"]}]}},
            "spec.network.devices[0].ipAddrs[0]",
        ),
    ],
)
async def test_what_a_webhook_would_have_refused_is_not_made_either(
    works: Any, vcenter: MemoryVCenter, spec: Any, path: str
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4, **spec)
    await works.lead()
    vm = await works.until_says("one", "VirtualMachineProvisioned", "InvalidSpec")
    assert words(vm).startswith(f"{path}: ")
    assert vcenter.tasks() == []


async def test_a_template_for_names_is_followed_or_refused(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", naming={"template": "gpu-{{ .machine.name }}"})
    await works.machine("two", naming={"template": "{{ printf .machine.name }}"})
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["gpu-one"]["on"]
    two = await works.until(
        capv.VSPHERE_MACHINES, "two", lambda one: "spec.naming.template" in words(one)
    )
    assert "printf is not supported" in words(two)
    assert await works.names(capv.VSPHERE_VMS) == {"gpu-one"}


async def test_a_label_without_a_vgpu_blocks_no_machine(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.machine("one", {"vGPUProfile": "grid_t4-8q", "customLabel": "lab-a"})
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["devices"]
