"""Orders and looks: what VMs become by them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
import pytest

from laneway.core.vsphere.inventory.vms import (
    Attached,
    DynamicBacking,
    TaskState,
    VgpuBacking,
    VmState,
)
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.port import (
    Addition,
    Clone,
    FaultError,
    NotFoundInVCenterError,
    Place,
    Reconfiguration,
    VCenter,
)
from support.vcenter import Simulator

T4 = PciIds(4318, 7864)


UUID = "11111111-2222-3333-4444-555555555555"


PLACE = Place(datacenter="DC0", cluster="DC0_C0")


CLONE = Clone(
    name="node-1",
    template="DC0_C0_RP0_VM0",
    place=PLACE,
    instance_uuid=UUID,
    cpus=4,
    cores_per_socket=2,
    memory_mib=8192,
    lock_memory=True,
    extra={"guestinfo.userdata": "c2VjcmV0", "pciPassthru.use64bitMMIO": "TRUE"},
)


@dataclass
class Doing:
    """Carries orders out to their end."""

    connection: VCenter

    async def __call__(self, order: Awaitable[str]) -> TaskState:
        return await self.connection.finished(await order)

    async def machine(self, clone: Clone = CLONE) -> VmState:
        done = await self(self.connection.clone(clone))
        assert done.fault is None
        return (await self.connection.look([done.result]))[done.result]

    async def seen(self, vm: VmState) -> VmState:
        return (await self.connection.look([vm.ref]))[vm.ref]


@pytest.fixture
def done(connection: VCenter) -> Doing:
    return Doing(connection)


def other(name: str, **more: object) -> Clone:
    uuid = f"{abs(hash(name)) % 10**8:08}-0000-0000-0000-000000000000"
    return msgspec.structs.replace(CLONE, name=name, instance_uuid=uuid, **more)


async def test_a_clone_is_what_was_requested(
    connection: VCenter, done: Doing, vcenter: Simulator
) -> None:
    vm = await done.machine()
    assert (vm.name, vm.instance_uuid, vm.on, vm.memory_locked) == ("node-1", UUID, False, True)
    assert vm.bios_uuid
    assert vm.host.startswith("host-")
    assert vm.host_name.startswith("DC0_C0_H")
    truth = vcenter.vms()["node-1"]
    assert truth["extra"]["guestinfo.userdata"] == "c2VjcmV0"
    assert truth["memoryLocked"]


async def test_user_data_is_not_read_back(done: Doing) -> None:
    assert (await done.machine()).extra == {"pciPassthru.use64bitMMIO": "TRUE"}


async def test_a_machine_is_found_by_either_uuid_and_by_name(
    connection: VCenter, done: Doing
) -> None:
    vm = await done.machine()
    assert await connection.find(UUID) == vm
    assert await connection.find(UUID.upper()) == vm
    assert await connection.find("99999999-2222-3333-4444-555555555555", vm.bios_uuid) == vm
    assert await connection.find("", vm.bios_uuid) == vm
    assert await connection.named("node-1", PLACE) == vm
    assert await connection.find("99999999-2222-3333-4444-555555555555") is None
    assert await connection.find("") is None
    assert await connection.named("node-2", PLACE) is None


async def test_a_clone_goes_to_the_host_that_was_named(connection: VCenter, done: Doing) -> None:
    first = await done.machine()
    hosts = {(await anext(connection.follow())).hosts}
    names = {host.ref: host.name for each in hosts for host in each if host.cluster == "DC0_C0"}
    for ref, name in names.items():
        place = msgspec.structs.replace(PLACE, cluster="", host=ref)
        vm = await done.machine(other(f"on-{name}".lower(), place=place))
        assert (vm.host, vm.host_name) == (ref, name)
    elsewhere = next(ref for ref in names if ref != first.host)
    assert (await done(connection.relocate(first.ref, elsewhere))).fault is None
    assert (await done.seen(first)).host == elsewhere


@pytest.mark.parametrize(
    "template",
    [
        "DC0_C0_RP0_VM1",
        "/DC0/vm/DC0_C0_RP0_VM1",
        "265104de-0000-0000-0000-6dc7883fb6cb",  # of no VM
    ],
)
async def test_templates_have_names_and_paths(
    connection: VCenter, done: Doing, template: str
) -> None:
    clone = other("by-template", template=template)
    if template.startswith(("/", "DC0")):
        assert (await done.machine(clone)).name == "by-template"
    else:
        with pytest.raises(NotFoundInVCenterError, match=template):
            await connection.clone(clone)


async def test_a_template_by_its_uuid(connection: VCenter, done: Doing) -> None:
    template = await connection.named("DC0_C0_RP0_VM1", PLACE)
    assert template is not None
    for uuid in (template.instance_uuid, template.bios_uuid):
        assert await done.machine(other(f"of-{uuid[:5]}", template=uuid))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(datacenter="DC9"), "datacenter 'DC9'; there is /DC0"),
        (Place(datacenter="DC0", cluster="C9"), "/DC0/host/DC0_C0"),
        (Place(datacenter="DC0", cluster="DC0_C0", folder="a%2fb/c"), "folder 'a%2fb/c'"),
        (Place(datacenter="DC0", cluster="DC0_C0", folder="../../etc"), "folder"),
        (Place(datacenter="DC0", cluster="DC0_C0", datastore="/"), "datastore '/'"),
        (Place(datacenter="DC0", cluster="DC0_C0", resource_pool="gold"), "resource pool 'gold'"),
        (Place(datacenter="DC0", host="host-4711"), "host host-4711"),
        (Place(datacenter="DC0"), "cluster"),
    ],
)
async def test_places_that_are_not_there_say_what_is(
    connection: VCenter, place: Place, said: str
) -> None:
    with pytest.raises(NotFoundInVCenterError) as refused:
        await connection.clone(msgspec.structs.replace(CLONE, place=place))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "place",
    [
        Place(datacenter="/DC0", cluster="/DC0/host/DC0_C0", folder="/DC0/vm"),
        Place(datacenter="*", cluster="DC0_C0", folder="vm", datastore="LocalDS_0"),
        Place(resource_pool="DC0_C0/Resources"),
        Place(resource_pool="/DC0/host/DC0_C0/Resources", datastore="/DC0/datastore/LocalDS_0"),
    ],
)
async def test_places_have_names_and_paths(done: Doing, place: Place) -> None:
    vm = await done.machine(msgspec.structs.replace(CLONE, place=place))
    assert vm.host_name.startswith("DC0_C0")


async def test_networks_replace_the_cards_of_the_template(connection: VCenter, done: Doing) -> None:
    vm = await done.machine(other("two-nets", networks=("VM Network", "DC0_DVPG0")))
    assert vm.name == "two-nets"
    with pytest.raises(NotFoundInVCenterError, match="network 'none'"):
        await connection.clone(other("no-net", networks=("none",)))


async def test_disks_grow_and_never_shrink(connection: VCenter, done: Doing) -> None:
    assert (await done.machine(other("large", disk_gib=200))).name == "large"
    with pytest.raises(NotFoundInVCenterError, match="snapshot 'none'"):
        await connection.clone(other("linked", linked=True, snapshot="none"))
    assert (await done.machine(other("full", linked=True))).name == "full"


async def test_devices_come_and_go_in_one_task(
    connection: VCenter, done: Doing, vcenter: Simulator
) -> None:
    vm = await done.machine()
    change = Reconfiguration(
        add=(
            Addition(-200, DynamicBacking((T4,), "lab-a")),
            Addition(-201, DynamicBacking((T4, PciIds(4318, 9008)))),
        ),
        extra={"pciPassthru.64bitMMIOSizeGB": "128", "pciPassthru.use64bitMMIO": ""},
        lock_memory=True,
        cpu_hot_add=False,
    )
    assert (await done(connection.reconfigure(vm.ref, change))).fault is None
    vm = await done.seen(vm)
    assert [each.backing for each in vm.devices] == [each.backing for each in change.add]
    assert all(each.key > 0 for each in vm.devices)
    assert vm.extra == {"pciPassthru.64bitMMIOSizeGB": "128"}

    assert (await done(connection.power_on(vm.ref))).fault is None
    vm = await done.seen(vm)
    assert vm.on
    assert {each.backing.assigned for each in vm.devices} == {
        device for (_, device) in vcenter.users()
    }

    refused = await done(connection.reconfigure(vm.ref, Reconfiguration(remove=vm.devices[:1])))
    assert refused.fault is None or refused.fault.type == "InvalidPowerState"
    assert (await done(connection.power_off(vm.ref))).fault is None
    left = (await done.seen(vm)).devices
    assert (await done(connection.reconfigure(vm.ref, Reconfiguration(remove=left)))).fault is None
    assert (await done.seen(vm)).devices == ()


async def test_a_vgpu_reads_back(connection: VCenter, done: Doing) -> None:
    vm = await done.machine()
    add = Reconfiguration(add=(Addition(-200, VgpuBacking("grid_t4-8q")),))
    assert (await done(connection.reconfigure(vm.ref, add))).fault is None
    (device,) = (await done.seen(vm)).devices
    assert device == Attached(device.key, VgpuBacking("grid_t4-8q"))


async def test_a_device_group_comes_as_a_whole(
    start_vcenter: Callable[..., Simulator], log_into: Callable[..., Awaitable[VCenter]]
) -> None:
    t4 = {"kind": "pciPassthru", "name": "Tesla T4", "vendorId": 4318, "deviceId": 7864}
    group = {"name": "Nvidia:2@t4%2f", "description": "two T4", "parts": [t4, t4]}
    connection = await log_into(start_vcenter(device_groups={"DC0_C0_H0": [group]}))
    done = Doing(connection)
    followed = connection.follow()
    (offered,) = [host for host in (await anext(followed)).hosts if host.device_groups]
    await followed.aclose()
    assert offered.name == "DC0_C0_H0"
    assert offered.device_groups[0].name == group["name"]
    assert [part.ids for part in offered.device_groups[0].parts] == [T4, T4]

    vm = await done.machine()
    whole = tuple(
        Addition(-200 - at, DynamicBacking((T4,)), str(group["name"]), 1, at) for at in range(2)
    )
    half = await done(connection.reconfigure(vm.ref, Reconfiguration(add=whole[:1])))
    assert half.fault is not None
    assert half.fault.type == "InvalidArgument"
    assert (await done(connection.reconfigure(vm.ref, Reconfiguration(add=whole)))).fault is None
    devices = (await done.seen(vm)).devices
    assert [device.group for device in devices] == [1, 1]
    assert (await done(connection.power_on(vm.ref))).fault is None
    assert (await done.seen(vm)).host_name == "DC0_C0_H0"


async def test_hardware_gets_newer(connection: VCenter, done: Doing) -> None:
    vm = await done.machine()
    assert (await done(connection.upgrade(vm.ref, 19))).fault is None
    assert (await done.seen(vm)).hardware_version == 19


async def test_a_fault_has_its_type_and_vcenters_words(
    connection: VCenter, done: Doing, vcenter: Simulator
) -> None:
    vm = await done.machine(other("greedy", lock_memory=False))
    add = Reconfiguration(add=(Addition(-200, VgpuBacking("grid_t4-8q")),))
    await done(connection.reconfigure(vm.ref, add))
    fault = (await done(connection.power_on(vm.ref))).fault
    assert fault is not None
    assert fault.type == "GenericVmConfigFault"
    assert "sched.mem.min" in fault.text

    vcenter.fail("PowerOnVM_Task", "NoCompatibleHost", "Kein Host passt.")
    fault = (await done(connection.power_on(vm.ref))).fault
    assert fault is not None
    assert (fault.type, fault.text) == ("NoCompatibleHost", "Kein Host passt.")

    vcenter.fail("Destroy_Task", "NoPermission", "Nein.", at_once=True)
    with pytest.raises(FaultError) as refused:
        await connection.destroy(vm.ref)
    assert refused.value.fault.type == "NoPermission"


async def test_a_state_that_is_reached_is_no_fault(connection: VCenter, done: Doing) -> None:
    vm = await done.machine()
    assert (await done(connection.power_off(vm.ref))).fault is None
    assert (await done(connection.power_on(vm.ref))).fault is None
    assert (await done(connection.power_on(vm.ref))).fault is None


async def test_tasks_are_waited_for_side_by_side(
    connection: VCenter, done: Doing, vcenter: Simulator
) -> None:
    vcenter.hold("CloneVM_Task")
    clones = [await connection.clone(other(f"node-{at}")) for at in range(10)]
    waits = [asyncio.create_task(connection.finished(task)) for task in clones]
    assert set(await connection.at_work("DC0_C0_RP0_VM0", PLACE)) == set(clones)
    assert (await connection.task(clones[0])) == TaskState(done=False)
    assert not any(wait.done() for wait in waits)
    vcenter.release()
    ended = await asyncio.gather(*waits)
    assert len({each.result for each in ended}) == 10
    assert await connection.at_work("DC0_C0_RP0_VM0", PLACE) == ()


async def test_a_task_at_work_shows_on_its_machine(
    connection: VCenter, done: Doing, vcenter: Simulator
) -> None:
    vm = await done.machine()
    vcenter.hold("PowerOnVM_Task")
    task = await connection.power_on(vm.ref)
    assert (await done.seen(vm)).tasks == (task,)
    vcenter.release()
    assert (await connection.finished(task)).fault is None
    assert (await done.seen(vm)).tasks == ()


async def test_destroyed_machines_are_gone(connection: VCenter, done: Doing) -> None:
    vm = await done.machine()
    assert (await done(connection.destroy(vm.ref))).fault is None
    assert await connection.look([vm.ref]) == {}
    assert await connection.find(UUID) is None


async def test_a_task_can_be_given_up(connection: VCenter, done: Doing, vcenter: Simulator) -> None:
    vcenter.hold("CloneVM_Task")
    task = await connection.clone(CLONE)
    await connection.cancel(task)
    ended = await connection.finished(task)
    assert ended.fault is not None
    assert ended.fault.type == "RequestCanceled"
    assert "node-1" not in vcenter.vms()
    await connection.cancel(task)  # which has ended: no matter
