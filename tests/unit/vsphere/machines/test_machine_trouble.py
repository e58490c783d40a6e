"""What cannot be had, what fails, what is taken away: said in vCenter's words, never a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from laneway.api import find_condition
from laneway.api.vsphere import VSphereReservation
from laneway.kube import capv
from laneway.kube.resource import served
from support.memory_vcenter import MemoryVCenter

RESERVATIONS = served(VSphereReservation)
T4 = {"vendorId": 0x10DE, "deviceId": 0x1EB8}
CARD = {
    "vendorId": 0x10DE,
    "deviceId": 0x1EB8,
    "name": "Tesla T4",
    "fbGiB": 16,
    "mode": "passthrough",
}
TWO_HOSTS = {
    "DC0_C0_H1": [{"id": "0000:3b:00.0"} | CARD],
    "DC0_C0_H2": [{"id": "0000:3b:00.0"} | CARD],
}
PROVISIONED = "VirtualMachineProvisioned"
DEVICES = "PCIDevicesReady"


def said(obj: Any, kind: str) -> tuple[str, str, str]:
    found = find_condition(obj.status.conditions, kind)
    return (found.status, found.reason, found.message) if found else ("", "", "")


async def test_a_wrong_template_is_named_and_nothing_is_made(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4, template="no-such-template")
    await works.lead()
    vm = await works.until_says("one", PROVISIONED, "NotFoundInVCenter")
    assert "no-such-template" in said(vm, PROVISIONED)[2]
    assert "one" not in vcenter.vms()
    assert vcenter.requests("CloneVM_Task") == 0
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert await works.names(RESERVATIONS) == set()


@pytest.mark.parametrize("folder", ["no/such%2ffolder", "100%", "/DC0/vm/../../etc", "a%zzb//"])
async def test_a_wrong_folder_is_named_whatever_it_is_called(
    works: Any, vcenter: MemoryVCenter, folder: str
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4, folder=folder)
    await works.lead()
    await works.until_says("one", PROVISIONED, "NotFoundInVCenter")
    assert vcenter.requests("CloneVM_Task") == 0
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")


async def test_devices_that_cannot_be_understood_are_not_guessed(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", {"vendorId": 0x10DE}, T4)
    await works.lead()
    vm = await works.until_says("one", DEVICES, "InvalidPCIDevices")
    assert "spec.pciDevices[0]" in said(vm, DEVICES)[2]
    assert "one" not in vcenter.vms()


async def test_the_one_too_many_waits_and_gets_what_is_released(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H1": TWO_HOSTS["DC0_C0_H1"]})
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    await works.machine("two", T4)
    vm = await works.until_says("two", DEVICES, "NoRoom")
    assert "10de:1eb8" in said(vm, DEVICES)[2]
    assert "two" not in vcenter.vms()
    await works.delete("one")
    await works.until_ready("two")


@pytest.mark.parametrize("drs", [True, False])
async def test_a_host_that_will_not_start_it_gives_way_to_another(
    works: Any, start_vcenter: Callable[..., MemoryVCenter], drs: bool
) -> None:
    vcenter = start_vcenter(TWO_HOSTS, drs=drs)
    await works.cluster(vcenter)
    vcenter.fail(
        "PowerOnVM_Task", "InsufficientHostCapacityFault", "Not here.", host="DC0_C0_H1", times=-1
    )
    await works.machine("one", T4)
    await works.machine("two", T4)
    await works.lead()
    vms = [await works.until(capv.VSPHERE_VMS, name, _decided) for name in ("one", "two")]
    ready = [vm for vm in vms if vm.status.ready]
    waiting = [vm for vm in vms if not vm.status.ready]
    assert [vcenter.vms()[vm.metadata.name]["host"] for vm in ready] == ["DC0_C0_H2"]
    assert "Not here." in said(waiting[0], PROVISIONED)[2]
    tries = [one for one in vcenter.tasks("PowerOnVM_Task") if one.get("fault")]
    assert len(tries) <= 3
    vcenter.calm()
    vcenter.change_host("DC0_C0_H1", maintenance=True)
    name = waiting[0].metadata.name
    await works.until(capv.VSPHERE_VMS, name, lambda one: "in maintenance" in said(one, DEVICES)[2])
    vcenter.change_host("DC0_C0_H1", maintenance=False)
    await works.until_ready(name)


@pytest.mark.parametrize(("fault", "tries"), [("NoCompatibleHost", 1), ("CannotAccessFile", 3)])
async def test_a_host_that_cannot_have_the_clone_gives_way_to_another(
    works: Any, start_vcenter: Callable[..., MemoryVCenter], fault: str, tries: int
) -> None:
    vcenter = start_vcenter(TWO_HOSTS, drs=False)
    await works.cluster(vcenter)
    vcenter.fail("CloneVM_Task", fault, "Not there.", host="DC0_C0_H1", times=-1)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H2"
    clones = [one.get("fault") for one in vcenter.tasks("CloneVM_Task")]
    assert clones == ["Not there."] * tries + [None]
    assert fault in await works.events("one")


async def test_a_host_that_it_cannot_be_moved_to_gives_way_to_another(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    hosts = TWO_HOSTS | {"DC0_C0_H0": TWO_HOSTS["DC0_C0_H1"]}
    vcenter = start_vcenter(hosts, drs=False)
    await works.cluster(vcenter)
    busy, lost = "InsufficientHostCapacityFault", "InaccessibleDatastore"
    vcenter.fail("PowerOnVM_Task", busy, "Not here.", host="DC0_C0_H0", times=-1)
    vcenter.fail("RelocateVM_Task", lost, "No datastore.", host="DC0_C0_H1", times=-1)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H2"
    moves = [one.get("fault") for one in vcenter.tasks("RelocateVM_Task")]
    assert moves == ["No datastore."] * 3 + [None]
    assert {busy, lost} <= await works.events("one")


@pytest.mark.parametrize("method", ["CloneVM_Task", "PowerOnVM_Task"])
async def test_a_short_outage_of_storage_costs_a_machine_neither_its_host_nor_its_devices(
    works: Any, start_vcenter: Callable[..., MemoryVCenter], method: str
) -> None:
    vcenter = start_vcenter(TWO_HOSTS, drs=False)
    await works.cluster(vcenter)
    vcenter.fail(method, "InaccessibleDatastore", "No datastore.", times=2)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H1"
    tries = [one.get("fault") for one in vcenter.tasks(method)]
    assert tries == ["No datastore.", "No datastore.", None]
    assert vcenter.tasks("RelocateVM_Task") == []
    # The reservation was written once, and never since.
    kept = await works.raw(RESERVATIONS, "one")
    assert kept["metadata"]["generation"] == 1


@pytest.mark.slow
async def test_after_a_longer_outage_of_storage_the_only_host_is_soon_tried_again(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    vcenter = start_vcenter({"DC0_C0_H1": TWO_HOSTS["DC0_C0_H1"]}, drs=False)
    await works.cluster(vcenter)
    vcenter.fail("PowerOnVM_Task", "InaccessibleDatastore", "No datastore.", times=4)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    assert len(vcenter.tasks("PowerOnVM_Task")) == 5


def _decided(vm: Any) -> bool:
    return vm.status.ready or said(vm, DEVICES)[1] == "NoRoom"


async def test_a_larger_card_elsewhere_has_address_space_too(
    works: Any, start_vcenter: Callable[..., MemoryVCenter]
) -> None:
    large = CARD | {"deviceId": 0x2330, "name": "H100", "fbGiB": 80}
    hosts = TWO_HOSTS | {"DC0_C0_H2": [{"id": "0000:86:00.0"} | large]}
    vcenter = start_vcenter(hosts, drs=False)
    await works.cluster(vcenter)
    vcenter.fail(
        "PowerOnVM_Task", "InsufficientHostCapacityFault", "Not here.", host="DC0_C0_H1", times=-1
    )
    await works.machine("one", {"allowedDevices": [T4, {"vendorId": 0x10DE, "deviceId": 0x2330}]})
    await works.lead()
    await works.until_ready("one")
    assert vcenter.vms()["one"]["host"] == "DC0_C0_H2"
    assert [one.get("fault", "") for one in vcenter.tasks("PowerOnVM_Task")] == ["Not here.", ""]


async def test_several_devices_in_one_request_are_tried_one_by_one(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    vcenter.fail("ReconfigVM_Task", "InvalidArgument", "A specified parameter was not correct.")
    await works.machine("one", T4, T4)
    await works.lead()
    await works.until_ready("one")
    assert len(vcenter.vms()["one"]["devices"]) == 2
    assert len(vcenter.tasks("ReconfigVM_Task")) == 3


async def test_what_cannot_succeed_is_not_ordered_again_until_something_changes(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    vcenter.fail("ReconfigVM_Task", "DeviceNotSupported", "Not supported.", times=-1)
    await works.machine("one", T4)
    await works.lead()
    vm = await works.until_says("one", DEVICES, "DeviceNotSupported")
    assert said(vm, DEVICES)[2] == "Not supported. (DeviceNotSupported)"
    assert vm.status.retry_after == ""
    await works.machine("two")  # by the time that one is ready, there was time enough
    await works.until_ready("two")
    assert len([one for one in vcenter.tasks("ReconfigVM_Task") if one["vm"] == "one"]) == 1
    vcenter.calm()
    vcenter.change_host("DC0_C0_H2", maintenance=True)
    await works.until_ready("one")


async def test_a_machine_that_loses_a_device_is_not_ready_and_not_mended(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    vcenter.detach("one")
    vm = await works.until_says("one", DEVICES, "PCIDevicesMissing")
    assert said(vm, "PCIDevicesDetached")[:2] == ("False", "NotFound")
    assert not vm.status.ready
    await works.until(capv.VSPHERE_MACHINES, "one", lambda one: said(one, "Ready")[0] == "False")
    assert vcenter.vms()["one"]["devices"] == []
    assert await works.names(RESERVATIONS) == {"one"}


async def test_a_vm_that_was_deleted_is_not_made_again(works: Any, vcenter: MemoryVCenter) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    vcenter.remove("one")
    await works.until_says("one", PROVISIONED, "NotFoundByBIOSUUID")
    assert await works.names(RESERVATIONS) == set()
    assert "one" not in vcenter.vms()
    await works.delete("one")
    await works.until_gone(capv.VSPHERE_MACHINES, "one")


async def test_a_vm_that_vcenter_cannot_read_is_not_taken_for_gone(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.lead()
    await works.until_ready("one")
    vcenter.unreadable("one")
    vm = await works.until_says("one", "VCenterAvailable", "VCenterUnreachable")
    assert "cannot read VM 'one'" in said(vm, "VCenterAvailable")[2]
    assert vm.status.ready
    await works.delete("one")
    await works.until(capv.VSPHERE_VMS, "one", _told_of_its_deletion)
    assert await works.names(RESERVATIONS) == {"one"}
    assert vcenter.vms()["one"]["on"]
    vcenter.unreadable("one", False)
    await works.until_gone(capv.VSPHERE_MACHINES, "one")
    assert "one" not in vcenter.vms()
    assert await works.names(RESERVATIONS) == set()


def _told_of_its_deletion(vm: Any) -> bool:
    now = vm.metadata.generation
    return vm.metadata.deletion_timestamp is not None and all(
        one.observed_generation == now for one in vm.status.conditions
    )


async def test_a_written_bios_uuid_gives_no_machine_the_vm_of_another(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    await works.machine("two", {"vGPUProfile": "grid_unknown-1q"})
    await works.lead()
    await works.until_ready("one")
    one = await works.until(capv.VSPHERE_VMS, "one", lambda vm: vm.spec.bios_uuid)
    await works.until_says("two", DEVICES, "DeviceNotOffered")
    body = {"spec": {"biosUUID": one.spec.bios_uuid}}
    await works.client.patch(capv.VSPHERE_VMS, "two", body, "default")
    await works.until_says("two", PROVISIONED, "NotFoundByBIOSUUID")
    await works.delete("two")
    await works.until_gone(capv.VSPHERE_MACHINES, "two")
    assert vcenter.vms()["one"]["on"]


async def test_a_vm_of_that_name_that_is_not_ours_is_left_alone(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("ubuntu", T4)
    before = vcenter.vms()["ubuntu"]
    await works.lead()
    await works.until_says("ubuntu", PROVISIONED, "DuplicateName")
    await works.delete("ubuntu")
    await works.until_gone(capv.VSPHERE_MACHINES, "ubuntu")
    assert vcenter.vms()["ubuntu"] == before


async def test_a_vcenter_that_cannot_be_reached_is_said_and_waited_for(
    works: Any, vcenter: MemoryVCenter
) -> None:
    await works.cluster(vcenter)
    await works.machine("one", T4)
    vcenter.stop()
    await works.lead()
    vm = await works.until_says("one", "VCenterAvailable", "VCenterUnreachable")
    assert said(vm, "Ready")[0] == "False"
    cluster = await works.raw(capv.VSPHERE_CLUSTERS, "gpus")
    assert cluster["status"].get("initialization") is None
