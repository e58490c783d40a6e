"""A machine from its object to a powered-on VM with its devices, and back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import find_condition
from laneway.api.vsphere import VSphereReservation
from laneway.kube import capv, clusterapi
from laneway.kube.resource import served
from support.memory_vcenter import MemoryVCenter

RESERVATIONS = served(VSphereReservation)

T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}


def said(obj: Any, kind: str) -> tuple[str, str, str]:
    found = find_condition(obj.status.conditions, kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")


async def test_a_machine_gets_its_devices_and_becomes_ready(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    machine = await works.until_ready("one")
    vm = await works.get(capv.VSPHERE_VMS, "one")
    real = vcenter.vms()["one"]
    assert real["on"]
    assert real["instanceUuid"] == vm.metadata.uid
    assert len(real["devices"]) == 1
    assert machine.spec.provider_id == f"vsphere://{vm.spec.bios_uuid}"
    assert machine.status.initialization.provisioned
    machine = await works.until(
        capv.VSPHERE_MACHINES,
        "one",
        lambda one: [seat["state"] for seat in one.status.pci_devices] == ["InUse"],
    )
    vm = await works.get(capv.VSPHERE_VMS, "one")
    assert machine.status.pci_devices == vm.status.pci_devices
    assert vm.status.host == real["host"]
    assert vm.status.addresses


async def test_a_machine_without_devices_needs_no_reservation(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("plain")
    await works.lead()
    await works.until_ready("plain")
    assert await works.names(RESERVATIONS) == set()
    vm = await works.get(capv.VSPHERE_VMS, "plain")
    assert said(vm, "PCIDevicesReady") == ("", "", "")


async def test_what_is_deleted_leaves_nothing_behind(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert await works.names(RESERVATIONS) == {"one"}
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert "one" not in vcenter.vms()
    assert vcenter.users() == {}
    assert await works.names(RESERVATIONS) == set()


async def test_the_machine_tells_what_its_vm_waits_for_and_the_vm_each_task(
    works: Any, vcenter: MemoryVCenter
) -> None:
    vcenter.hold("CloneVM_Task")
    await works.cluster(vcenter)
    await works.machine("one")
    await works.lead()
    kind = "VirtualMachineProvisioned"
    await works.until(
        capv.VSPHERE_VMS, "one", lambda one: one.status.task_ref and "task-" in said(one, kind)[2]
    )
    short = ("False", "WaitingForClone", "See the conditions of VSphereVM one")
    await works.until(capv.VSPHERE_MACHINES, "one", lambda one: said(one, kind) == short)
    vcenter.release()
    await works.until_ready("one")


@pytest.mark.parametrize("mode", ["soft", "trySoft"])
async def test_a_guest_is_asked_to_shut_down(works: Any, vcenter: MemoryVCenter, mode: str) -> None:
    await works.cluster(vcenter)
    await works.machine("one", powerOffMode=mode)
    await works.lead()
    await works.until_ready("one")
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert vcenter.requests("ShutdownGuest") == 1
    assert vcenter.tasks("PowerOffVM_Task") == []


async def test_a_guest_that_does_not_obey_is_switched_off_in_time(
    works: Any, vcenter: MemoryVCenter
) -> None:
    vcenter.guests(shutdown=False)
    await works.cluster(vcenter)
    await works.machine("one", powerOffMode="trySoft", guestSoftPowerOffTimeoutSeconds=1)
    await works.lead()
    await works.until_ready("one")
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert len(vcenter.tasks("PowerOffVM_Task")) == 1


async def test_old_hardware_is_upgraded_before_devices_are_attached(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter(hardware_version="vmx-13")
    await works.cluster(vcenter)
    await works.machine("one", T4, hardwareVersion="vmx-19")
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["version"] == "vmx-19"
    assert [task["method"] for task in vcenter.tasks() if task["vm"] == "one"] == [
        "CloneVM_Task",
        "UpgradeVM_Task",
        "ReconfigVM_Task",
        "PowerOnVM_Task",
    ]


async def test_devices_of_the_template_count_and_stay_where_none_are_requested(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("same", T4, template="ubuntu-with-t4")
    await works.machine("none", template="ubuntu-with-t4")
    await works.lead()
    await works.until_ready("same")
    await works.until_ready("none")
    assert len(vcenter.vms()["same"]["devices"]) == 1
    assert len(vcenter.vms()["none"]["devices"]) == 1


async def test_large_cards_get_address_space_unless_the_user_says_how_much(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    keys = {"pciPassthru.64bitMMIOSizeGB": "512"}
    await works.machine("one", T4)
    await works.machine("two", T4, customVMXKeys=keys)
    await works.lead()
    await works.until_ready("one")
    await works.until_ready("two")
    assert vcenter.vms()["one"]["extra"]["pciPassthru.64bitMMIOSizeGB"] == "32"
    assert vcenter.vms()["one"]["extra"]["pciPassthru.use64bitMMIO"] == "TRUE"
    assert vcenter.vms()["two"]["extra"]["pciPassthru.64bitMMIOSizeGB"] == "512"


async def test_the_guest_gets_its_data_and_its_name(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.machine("one")
    await works.lead()
    await works.until_ready("one")
    extra = vcenter.vms()["one"]["extra"]
    assert base64.b64decode(extra["guestinfo.userdata"]) == b"#cloud-config"
    assert json.loads(base64.b64decode(extra["guestinfo.metadata"]))["local-hostname"] == "one"


async def test_without_drs_the_vm_is_made_on_the_reserved_host(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    card = {
        "id": "0000:3b:00.0",
        "vendorId": 0x10DE,
        "deviceId": 0x1EB8,
        "name": "Tesla T4",
        "fbGiB": 16,
        "mode": "passthrough",
    }
    vcenter = start_vcenter({"DC0_C0_H2": [card]}, drs=False)
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H2"
    assert vcenter.tasks("RelocateVM_Task") == []


async def test_without_a_resource_pool_the_vm_is_made_in_the_cluster_that_has_its_devices(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    card = {
        "id": "0000:3b:00.0",
        "vendorId": 0x10DE,
        "deviceId": 0x1EB8,
        "name": "Tesla T4",
        "fbGiB": 16,
        "mode": "passthrough",
    }
    vcenter = start_vcenter({"DC0_C1_H0": [card]}, clusters=2)
    await works.cluster(vcenter)
    await works.machine("one", T4, resourcePool=None, datastore=None)
    await works.machine("none", resourcePool=None)
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C1_H0"
    # Nothing tells where one without devices is to be.
    vm = await works.until(
        capv.VSPHERE_VMS,
        "none",
        lambda one: "cluster is not unique" in said(one, "VirtualMachineProvisioned")[2],
    )
    assert "/DC0/host/DC0_C1" in said(vm, "VirtualMachineProvisioned")[2]


async def test_a_machine_waits_for_its_cluster_and_its_data(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", data=False)
    await works.lead()
    await works.until_says("one", "VirtualMachineProvisioned", "BootstrapDataUnusable")
    assert "one" not in vcenter.vms()
    await works.secret("one-data", value="#cloud-config", format="cloud-config")
    await works.until_ready("one")


async def test_what_is_paused_is_left_alone(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.patch(clusterapi.CLUSTERS, "gpus", {"spec": {"paused": True}})
    await works.machine("one", T4)
    await works.machine("other", T4)
    annotation = {"metadata": {"annotations": {clusterapi.ANNOTATION_PAUSED: ""}}}
    await works.patch(capv.VSPHERE_MACHINES, "other", annotation)
    await works.lead()
    await works.until(capv.VSPHERE_CLUSTERS, "gpus", lambda one: not one.metadata.finalizers)
    await works.patch(clusterapi.CLUSTERS, "gpus", {"spec": {"paused": False}})
    await works.until_ready("one")
    assert await works.names(capv.VSPHERE_VMS) == {"one"}
    assert "other" not in vcenter.vms()
