"""Rules of vCenter that a machine's way depends on: what it refuses, and who gets which GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from laneway.core.vsphere.inventory.vms import DynamicBacking, Fault, VgpuBacking, VmState
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.port import (
    Addition,
    Clone,
    Place,
    Reconfiguration,
    UnreachableVCenterError,
    VCenter,
)

T4, H100 = PciIds(4318, 7864), PciIds(4318, 9008)
CARD = {
    "id": "0000:3b:00.0",
    "vendorId": 4318,
    "deviceId": 7864,
    "name": "Tesla T4",
    "fbGiB": 16,
    "mode": "passthrough",
}
LogIn = Callable[..., Awaitable[VCenter]]
Start = Callable[..., Any]


class Ruled:
    """VMs of one vCenter."""

    def __init__(self, connection: VCenter) -> None:
        self.port = connection
        self._made = 0

    def clone(self, name: str, **more: Any) -> Clone:
        self._made += 1
        uuid = f"{self._made:08}-aaaa-0000-0000-000000000000"
        place = Place(datacenter="DC0", cluster="DC0_C0", host=more.pop("host", ""))
        return Clone(
            name, "DC0_C0_RP0_VM0", place, uuid, 2, 1, 2048, **{"lock_memory": True} | more
        )

    async def fault(self, order: Awaitable[str]) -> Fault | None:
        return (await self.port.finished(await order)).fault

    async def vm(self, name: str, *backings: Any, **more: Any) -> str:
        """A VM that is off, with these devices."""
        done = await self.port.finished(await self.port.clone(self.clone(name, **more)))
        assert done.fault is None
        if backings:
            assert await self.attach(done.result, *backings) is None
        return done.result

    async def attach(self, vm: str, *backings: Any) -> Fault | None:
        add = tuple(Addition(-200 - at, one) for at, one in enumerate(backings))
        return await self.fault(self.port.reconfigure(vm, Reconfiguration(add=add)))

    async def seen(self, vm: str) -> VmState:
        return (await self.port.look([vm]))[vm]

    async def refused(self, order: Awaitable[str]) -> str:
        fault = await self.fault(order)
        return fault.type if fault is not None else ""


@pytest.fixture
def ruled(connection: VCenter) -> Ruled:
    return Ruled(connection)


async def test_a_board_that_is_full_takes_no_vgpu_and_then_one_again(ruled: Ruled) -> None:
    vgpu = VgpuBacking("grid_t4-16q")
    one, two = [await ruled.vm(name, vgpu) for name in ("one", "two")]
    assert await ruled.refused(ruled.port.power_on(one)) == ""
    assert (await ruled.seen(one)).host_name == "DC0_C0_H1"
    assert await ruled.refused(ruled.port.power_on(two)) == "InsufficientGraphicsResourcesFault"
    assert await ruled.refused(ruled.port.power_off(one)) == ""
    assert await ruled.refused(ruled.port.power_on(two)) == ""


async def test_vgpus_of_a_board_have_one_size(ruled: Ruled) -> None:
    half, quarter = VgpuBacking("grid_t4-8q"), VgpuBacking("grid_t4-4c")
    assert await ruled.refused(ruled.port.power_on(await ruled.vm("one", half))) == ""
    other = await ruled.vm("other", quarter)
    assert await ruled.refused(ruled.port.power_on(other)) == "InsufficientGraphicsResourcesFault"
    assert await ruled.refused(ruled.port.power_on(await ruled.vm("two", half))) == ""


async def test_whole_devices_go_to_one_vm_each(ruled: Ruled, vcenter: Any) -> None:
    vms = [await ruled.vm(name, DynamicBacking((T4,))) for name in ("one", "two", "three")]
    faults = [await ruled.refused(ruled.port.power_on(vm)) for vm in vms]
    assert faults == ["", "", "InsufficientHostCapacityFault"]
    assert vcenter.users() == {
        ("DC0_C0_H0", "0000:3b:00.0"): {"one": [""]},
        ("DC0_C0_H0", "0000:af:00.0"): {"two": [""]},
    }
    vcenter.detach("one")
    assert (await ruled.seen(vms[0])).devices == ()
    assert await ruled.refused(ruled.port.power_on(vms[2])) == ""


async def test_a_device_that_no_host_has_is_compatible_with_none(ruled: Ruled) -> None:
    vm = await ruled.vm("one", DynamicBacking((PciIds(4318, 1),)))
    assert await ruled.refused(ruled.port.power_on(vm)) == "NoCompatibleHost"


async def test_without_drs_a_vm_starts_on_its_own_host_or_nowhere(
    start_vcenter: Start, log_into: LogIn
) -> None:
    vcenter = start_vcenter({"DC0_C0_H2": [CARD]}, drs=False)
    ruled = Ruled(await log_into(vcenter))
    refs = {host["name"]: host["ref"] for host in vcenter.state()["hosts"]}
    vm = await ruled.vm("one", DynamicBacking((T4,)), host=refs["DC0_C0_H0"])
    assert await ruled.refused(ruled.port.power_on(vm)) == "InsufficientHostCapacityFault"
    assert await ruled.refused(ruled.port.relocate(vm, refs["DC0_C0_H2"])) == ""
    assert await ruled.refused(ruled.port.power_on(vm)) == ""
    assert await ruled.refused(ruled.port.relocate(vm, refs["DC0_C0_H1"])) == "DeviceNotSupported"


async def test_a_closed_host_takes_nothing(start_vcenter: Start, log_into: LogIn) -> None:
    vcenter = start_vcenter({"DC0_C0_H1": [CARD]}, drs=False)
    ruled = Ruled(await log_into(vcenter))
    refs = {host["name"]: host["ref"] for host in vcenter.state()["hosts"]}
    vm = await ruled.vm("one", DynamicBacking((T4,)), host=refs["DC0_C0_H1"])
    vcenter.change_host("DC0_C0_H1", maintenance=True)
    assert await ruled.refused(ruled.port.power_on(vm)) == "InvalidState"
    clone = ruled.clone("two", host=refs["DC0_C0_H1"])
    assert await ruled.refused(ruled.port.clone(clone)) == "InvalidState"
    vcenter.change_host("DC0_C0_H1", maintenance=False, connected=False)
    assert await ruled.refused(ruled.port.power_on(vm)) == "HostNotConnected"


async def test_large_gpus_need_their_address_space(ruled: Ruled) -> None:
    vm = await ruled.vm("one", DynamicBacking((H100,)))
    assert await ruled.refused(ruled.port.power_on(vm)) == "GenericVmConfigFault"
    extra = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "256"}
    assert await ruled.fault(ruled.port.reconfigure(vm, Reconfiguration(extra=extra))) is None
    assert await ruled.refused(ruled.port.power_on(vm)) == ""
    assert (await ruled.seen(vm)).host_name == "DC0_C0_H2"


async def test_what_is_refused_changes_nothing(start_vcenter: Start, log_into: LogIn) -> None:
    ruled = Ruled(await log_into(start_vcenter(hardware_version="vmx-13")))
    vm = await ruled.vm("one")
    fault = await ruled.attach(vm, DynamicBacking((T4,)))
    assert fault is not None
    assert fault.type == "DeviceUnsupportedForVmVersion"
    assert await ruled.refused(ruled.port.upgrade(vm, 13)) == "AlreadyUpgraded"
    assert await ruled.refused(ruled.port.upgrade(vm, 4711)) == "InvalidArgument"
    twice = tuple(Addition(-200, VgpuBacking("grid_t4-8q")) for _ in range(2))
    change = Reconfiguration(add=twice, extra={"pciPassthru.x": "y"})
    assert await ruled.refused(ruled.port.reconfigure(vm, change)) == "InvalidArgument"
    nested = await ruled.vm("nested", nested=True)
    fault = await ruled.attach(nested, VgpuBacking("grid_t4-8q"))
    assert fault is not None
    assert "Nested Hardware-Assisted Virtualization" in fault.text
    seen = await ruled.seen(vm)
    assert (seen.devices, seen.hardware_version, seen.extra) == ((), 13, {})


async def test_names_are_given_once_and_a_vm_has_one_task(ruled: Ruled, vcenter: Any) -> None:
    vm = await ruled.vm("one")
    assert await ruled.refused(ruled.port.clone(ruled.clone("one"))) == "DuplicateName"
    vcenter.hold("PowerOnVM_Task")
    task = await ruled.port.power_on(vm)
    assert await ruled.refused(ruled.port.destroy(vm)) == "TaskInProgress"
    vcenter.release()
    assert (await ruled.port.finished(task)).fault is None
    assert await ruled.refused(ruled.port.destroy(vm)) == "InvalidPowerState"


async def test_a_guest_tells_its_address_and_obeys_or_not(ruled: Ruled, vcenter: Any) -> None:
    vcenter.guests(addresses=False, shutdown=False)
    vm = await ruled.vm("one")
    assert await ruled.refused(ruled.port.power_on(vm)) == ""
    assert (await ruled.seen(vm)).addresses == ()
    vcenter.guests(others={"ee:ee:ee:ee:ee:ee": ["10.96.0.1"], "": ["fe80::1"]}, shutdown=False)
    own = vcenter.vms()["one"]["ip"]
    assert (await ruled.seen(vm)).addresses == (own,)
    await ruled.port.shut_down_guest(vm)
    assert (await ruled.seen(vm)).on
    vcenter.guests()
    await ruled.port.shut_down_guest(vm)
    seen = await ruled.seen(vm)
    assert (seen.on, seen.addresses) == (False, ())


async def test_a_vm_whose_files_are_lost_tells_no_uuid(ruled: Ruled, vcenter: Any) -> None:
    vm = await ruled.vm("one")
    uuid = (await ruled.seen(vm)).instance_uuid
    vcenter.unreadable("one")
    assert await ruled.port.find(uuid) is None
    seen = await ruled.seen(vm)
    assert (seen.name, seen.instance_uuid, seen.devices) == ("one", "", ())
    vcenter.unreadable("one", False)
    found = await ruled.port.find(uuid)
    assert found is not None
    assert found.ref == vm


@pytest.mark.parametrize("after", [False, True])
async def test_a_connection_that_breaks_leaves_open_whether_it_was_done(
    ruled: Ruled, vcenter: Any, after: bool
) -> None:
    vm = await ruled.vm("one")
    vcenter.drop("PowerOnVM_Task", after=after)
    with pytest.raises(UnreachableVCenterError):
        await ruled.port.power_on(vm)
    assert len(vcenter.tasks("PowerOnVM_Task")) == after
    async with asyncio.timeout(30):
        while (await ruled.seen(vm)).tasks:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.02)
    assert (await ruled.seen(vm)).on == after


async def test_a_task_fails_where_it_is_set_to(start_vcenter: Start, log_into: LogIn) -> None:
    vcenter = start_vcenter({"DC0_C0_H1": [CARD]})
    ruled = Ruled(await log_into(vcenter))
    vcenter.fail("PowerOnVM_Task", "NoDiskSpace", "Full.", host="DC0_C0_H1")
    vcenter.fail("CloneVM_Task", "InvalidState", "Not this.", vm="other")
    vm = await ruled.vm("one", DynamicBacking((T4,)))
    assert await ruled.fault(ruled.port.power_on(vm)) == Fault("NoDiskSpace", "Full.")
    assert vcenter.users() == {}
    assert await ruled.refused(ruled.port.power_on(vm)) == ""
    assert await ruled.refused(ruled.port.clone(ruled.clone("other"))) == "InvalidState"
    assert await ruled.refused(ruled.port.clone(ruled.clone("other"))) == ""


async def test_must_run_rules_bind_the_vms_of_a_group(
    start_vcenter: Start, log_into: LogIn
) -> None:
    groups = {"hostGroups": {"rack": ["DC0_C0_H2"]}, "vmGroups": {"vms": []}}
    vcenter = start_vcenter(
        {name: [CARD] for name in ("DC0_C0_H0", "DC0_C0_H2")},
        settings={"DC0_C0": groups | {"mustRun": {"vms": "rack"}}},
    )
    ruled = Ruled(await log_into(vcenter))
    vms = [await ruled.vm(name, DynamicBacking((T4,))) for name in ("one", "two")]
    for vm in vms:
        assert await ruled.refused(ruled.port.join_group(vm, "DC0_C0", "vms")) == ""
    assert await ruled.refused(ruled.port.power_on(vms[0])) == ""
    assert (await ruled.seen(vms[0])).host_name == "DC0_C0_H2"
    assert await ruled.refused(ruled.port.power_on(vms[1])) == "InsufficientHostCapacityFault"
