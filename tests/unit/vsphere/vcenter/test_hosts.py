"""Hosts as vCenter tells them and as they come out: the traps of its numbers, modes and lists."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.core.vsphere.inventory.hosts import DeviceGroup, GroupPart, Host, VgpuUser
from laneway.core.vsphere.spec.requests import PciIds
from laneway.vsphere.vcenter.config_targets import NOTHING, Target, target_of
from laneway.vsphere.vcenter.hosts import Around, Facts, assembled
from laneway.vsphere.vcenter.inventory import Inventory
from laneway.vsphere.vcenter.pyvmomi import vim, vmodl

GPU, NIC = "0000:3b:00.0", "0000:86:00.0"
Collector = vmodl.query.PropertyCollector


def signed(number: int) -> int:
    return number - 0x10000 if number > 0x7FFF else number


def slot(at: str, vendor: int, device: int, kind: int = 0x302, **more: object) -> object:
    ids = {"vendorId": signed(vendor), "deviceId": signed(device)} | more
    return vim.host.PciDevice(id=at, classId=kind, deviceName="card", **ids)


def passed(at: str, *, enabled: bool = True, active: bool = True, label: str = "") -> object:
    return vim.host.PciPassthruInfo(
        id=at,
        dependentDevice=at,
        passthruEnabled=enabled,
        passthruCapable=True,
        passthruActive=active,
        hardwareLabel=label or None,
    )


def card(at: str, vms: Sequence[str] = (), kind: str = "sharedDirect", **more: object) -> object:
    return vim.host.GraphicsInfo(
        deviceName="NVIDIA A16",
        pciId=at,
        graphicsType=kind,
        vm=[vim.VirtualMachine(vm) for vm in vms],
        **({"memorySizeInKB": (15 << 20) + 1} | more),
    )


def cards(*reported: object) -> object:
    """As a change has them."""
    return vim.host.GraphicsInfo.Array(reported)


def facts(**reported: object) -> Facts:
    found = Facts("host-1")
    for path, value in (
        {"name": "esx-1", "runtime.connectionState": "connected"} | reported
    ).items():
        found.take(path, value)
    return found


def host(reported: Facts, target: Target = NOTHING, **vgpus: Sequence[str]) -> Host:
    by_vm = {vm.replace("_", "-"): names for vm, names in vgpus.items()}
    return assembled(reported, Around(), target, by_vm)


def reported(**lists: Sequence[object]) -> Target:
    return target_of(vim.vm.ConfigTarget(**lists))


def profile(name: str, size: int, number: int, sharing: str = "timeSliced") -> object:
    return vim.vm.VgpuProfileInfo(
        name=name,
        profileName=name,
        deviceVendorId=number << 16 | 0x10DE,
        fbSizeInGib=size,
        profileSharing=sharing,
        profileClass="compute",
    )


def test_signed_numbers_are_read_as_people_know_them() -> None:
    slots = [slot(NIC, 0x8086, 0xF0A2, 0x200, subVendorId=-1, subDeviceId=signed(0x8000))]
    (device,) = host(
        facts(**{"hardware.pciDevice": slots, "config.pciPassthruInfo": [passed(NIC)]})
    ).devices
    assert device.ids == PciIds(0x8086, 0xF0A2, 0xFFFF, 0x8000)
    assert not device.display


def test_devices_of_whole_machines() -> None:
    bridge, off, waiting = "0000:00:01.0", "0000:01:00.0", "0000:02:00.0"
    slots = [slot(at, 0x10DE, 0x1EB8) for at in (GPU, NIC, off, waiting)]
    slots.append(slot(bridge, 0x8086, 1, 0x604))
    devices = host(
        facts(
            **{
                "hardware.pciDevice": slots,
                "config.pciPassthruInfo": [
                    passed(GPU.upper(), label="red"),
                    passed(NIC),
                    passed(off, enabled=False, active=False),
                    passed(waiting, active=False),
                    passed(bridge),
                    passed("0000:ff:00.0"),
                ],
                "config.assignableHardwareBinding": [
                    vim.host.AssignableHardwareBinding(
                        instanceId=f"pcip:{NIC}", vm=vim.VirtualMachine("vm-7")
                    ),
                    vim.host.AssignableHardwareBinding(
                        instanceId="dvx:something", vm=vim.VirtualMachine("vm-8")
                    ),
                ],
                "config.assignableHardwareConfig": vim.host.AssignableHardwareConfig(
                    attributeOverride=[
                        vim.host.AssignableHardwareConfig.AttributeOverride(
                            instanceId=f"pcip:{NIC}", name=name, value=value
                        )
                        for name, value in (("hardwareLabel", "blue"), ("other", "green"))
                    ]
                ),
            }
        )
    ).devices
    assert [(one.id, one.label, one.active, one.holder) for one in devices] == [
        (waiting, "", False, ""),
        (GPU, "red", True, ""),
        (NIC, "blue", True, "vm-7"),
    ]


def test_a_gpu_that_cannot_be_claimed_yet_shows_and_the_console_does_not() -> None:
    shown = host(
        facts(
            **{
                "hardware.pciDevice": [slot(GPU, 0x10DE, 1), slot(NIC, 0x102B, 2, 0x300)],
                "config.graphicsInfo": [card(GPU, kind="shared"), card(NIC, kind="basic")],
            }
        )
    ).devices
    assert [(one.id, one.active, one.display) for one in shown] == [(GPU, False, True)]


def test_a_board_has_the_profiles_of_its_own_kind() -> None:
    told_facts = facts(
        **{
            "hardware.pciDevice": [slot(GPU, 0x10DE, 0x25B6), slot(NIC, 0x10DE, 0x20B5)],
            "config.graphicsInfo": [
                card(GPU, vgpuMode="none"),
                card(NIC, vgpuMode="multiInstanceGpu"),
            ],
            "config.sharedPassthruGpuTypes": ["a16-16c", "a100-1-10c", "a16-16c", "mystery"],
            "config.sharedGpuCapabilities": [
                vim.host.SharedGpuCapabilities(vgpu="a16-16c", migrateSupported=True)
            ],
            "config.graphicsConfig": vim.host.GraphicsConfig(hostDefaultGraphicsType="shared"),
        }
    )
    target = reported(
        vgpuProfileInfo=[
            profile("a16-16c", 16, 0x25B6),
            profile("a100-1-10c", 10, 0x20B5, "mig"),
            profile("elsewhere", 4, 0x1EB8),
        ],
        vgpuDeviceInfo=[
            vim.vm.VgpuDeviceInfo(
                name="A100", deviceName="A100", deviceVendorId=0x20B510DE, maxFbSizeInGib=80
            )
        ],
    )
    shown = host(told_facts, target)
    a16, a100 = shown.shared_gpus
    assert [(one.name, one.memory_gib, one.migrates) for one in a16.profiles] == [
        ("a16-16c", 16, True),
        ("mystery", 0, False),
    ]
    assert [(one.name, one.mig) for one in a100.profiles] == [
        ("a100-1-10c", True),
        ("mystery", False),
    ]
    assert (a16.mode, a100.mode) == ("", "multiInstanceGpu")
    assert (a16.memory_gib, a100.memory_gib) == (16, 80)
    assert type(a100.memory_gib) is int
    assert not shown.shared_direct


def test_a_vm_that_may_not_be_read_uses_its_board_all_the_same() -> None:
    (gpu,) = host(facts(**{"config.graphicsInfo": [card(GPU, ["vm-1"])]})).shared_gpus
    assert gpu.users == (VgpuUser("vm-1", ""),)


def test_vgpus_on_several_boards_are_each_on_one() -> None:
    shared = facts(
        **{
            "config.graphicsInfo": [card(GPU, ["vm-1", "vm-2"]), card(NIC, ["vm-1"])],
            "config.sharedPassthruGpuTypes": ["p"],
        }
    )
    one, other = host(shared, vm_1=("p", "p", "p"), vm_2=("p",)).shared_gpus
    assert sorted([len(one.users), len(other.users)]) == [2, 2]
    assert sum(user.vm == "vm-1" for gpu in (one, other) for user in gpu.users) == 3


@given(
    st.lists(st.lists(st.sampled_from(["vm-1", "vm-2", "vm-3"]), unique=True), max_size=4),
    st.dictionaries(
        st.sampled_from(["vm_1", "vm_2", "vm_3"]),
        st.lists(st.sampled_from(["p", "q", "r"]), max_size=5),
    ),
)
def test_no_vgpu_is_lost_or_reported_twice(
    shared_gpus: list[list[str]], vgpus: dict[str, list[str]]
) -> None:
    shared = facts(
        **{
            "config.graphicsInfo": [
                card(f"0000:{at:02x}:00.0", on) for at, on in enumerate(shared_gpus)
            ],
            "config.sharedPassthruGpuTypes": ["p", "q"],
        }
    )
    shown = host(shared, **vgpus).shared_gpus
    for gpu, on in zip(shown, shared_gpus, strict=True):
        assert {user.vm for user in gpu.users} == set(on)
    for vm in {vm for on in shared_gpus for vm in on}:
        mine = [user.profile for gpu in shown for user in gpu.users if user.vm == vm]
        known = vgpus.get(vm.replace("-", "_"), [])
        assert sorted(name for name in mine if name) == sorted(known)
        assert mine.count("") == max(0, sum(vm in on for on in shared_gpus) - len(known))


def test_device_groups_come_in_every_form() -> None:
    passthrough = vim.vm.device.VirtualPCIPassthrough
    allowed = passthrough.AllowedDevice(vendorId=0x10DE, deviceId=0x2331)
    backings = {
        "nvidiaVgpu": passthrough.VmiopBackingInfo(vgpu="a100-40c"),
        "pciPassthru": passthrough.DynamicBackingInfo(
            deviceName="", allowedDevice=[allowed], customLabel="nv"
        ),
        "sriovNic": passthrough.DeviceBackingInfo(
            deviceName="", id=NIC, deviceId="a2dc", systemId="", vendorId=signed(0x15B3)
        ),
    }
    info = vim.vm.VendorDeviceGroupInfo(
        name="",
        deviceGroupName="Nvidia:2@h100%3",
        deviceGroupDescription="two",
        componentDeviceInfo=[
            vim.vm.VendorDeviceGroupInfo.ComponentDeviceInfo(
                type=kind,
                vendorName="",
                deviceName=kind,
                isConfigurable=False,
                device=passthrough(key=1, backing=backing),
            )
            for kind, backing in backings.items()
        ],
    )
    assert reported(vendorDeviceGroupInfo=[info]).groups == (
        DeviceGroup(
            "Nvidia:2@h100%3",
            "two",
            (
                GroupPart("nvidiaVgpu", "nvidiaVgpu", None, "a100-40c"),
                GroupPart("pciPassthru", "pciPassthru", PciIds(0x10DE, 0x2331), "", "nv"),
                GroupPart("sriovNic", "sriovNic", PciIds(0x15B3, 0xA2DC)),
            ),
        ),
    )


# ------------------------------------------------------------------------------- updates


def update(*objects: tuple[object, dict[str, object]], kind: str = "enter") -> list[object]:
    return [
        Collector.FilterUpdate(
            filter=Collector.Filter("filter-1"),
            objectSet=[
                Collector.ObjectUpdate(
                    kind=kind,
                    obj=thing,
                    changeSet=[
                        Collector.Change(name=name, op="assign", val=value)
                        for name, value in changes.items()
                    ],
                )
                for thing, changes in objects
            ],
        )
    ]


ESX, CLUSTER, FOLDER, DC = (
    vim.HostSystem("host-1"),
    vim.ClusterComputeResource("domain-c1"),
    vim.Folder("group-h1"),
    vim.Datacenter("datacenter-1"),
)


def drs(behavior: str = "fullyAutomated", *, enabled: bool = True) -> object:
    return vim.cluster.ConfigInfoEx(
        drsConfig=vim.cluster.DrsConfigInfo(enabled=enabled, defaultVmBehavior=behavior),
        group=[vim.cluster.HostGroup(name="gpus", host=[ESX])],
    )


def filled() -> Inventory:
    """A host, reported before everything that it is in, as pages may have it."""
    inventory = Inventory()
    inventory.take(update((ESX, {"name": "esx%2f1", "parent": CLUSTER})))
    inventory.take(update((FOLDER, {"name": "host", "parent": DC}), (DC, {"name": "e%25"})))
    inventory.take(update((CLUSTER, {"name": "c1", "parent": FOLDER, "configurationEx": drs()})))
    return inventory


def test_pages_in_any_order_come_to_one_host() -> None:
    first = filled().changes(complete=True)
    assert first is not None
    assert first.complete
    (esx,) = first.hosts
    assert (esx.name, esx.datacenter, esx.cluster, esx.drs) == ("esx/1", "e%", "c1", True)
    assert esx.groups_of == ("gpus",)


@pytest.mark.parametrize(
    ("config", "placed"),
    [
        (drs("manual"), False),
        (drs("partiallyAutomated"), True),
        (drs(enabled=False), False),
        (None, False),
    ],
)
def test_drs_places_by_itself_unless_it_is_manual(config: object, placed: bool) -> None:
    inventory = filled()
    inventory.changes()
    inventory.take(update((CLUSTER, {"configurationEx": config}), kind="modify"))
    changed = inventory.changes()
    assert [host.drs for host in changed.hosts] == [placed] if changed else placed


def test_what_comes_out_the_same_is_no_news() -> None:
    inventory = filled()
    assert inventory.changes() is not None
    inventory.take(update((ESX, {"name": "esx%2f1", "parent": CLUSTER}), kind="modify"))
    inventory.take(update((FOLDER, {"name": "renamed", "parent": DC}), kind="modify"))
    assert inventory.changes() is None


def test_hosts_that_leave_are_gone_unless_they_come_back() -> None:
    inventory = filled()
    inventory.changes()
    inventory.take(update((ESX, {}), kind="leave"))
    changed = inventory.changes()
    assert changed is not None
    assert (changed.hosts, changed.gone) == ((), ("host-1",))
    inventory.take(update((ESX, {}), kind="leave"))
    inventory.take(update((ESX, {"name": "esx", "parent": CLUSTER})))
    changed = inventory.changes()
    assert changed is not None
    assert ([host.name for host in changed.hosts], changed.gone) == (["esx"], ())


def test_a_configuration_target_is_asked_again_only_for_a_new_configuration() -> None:
    inventory = filled()
    browser = vim.EnvironmentBrowser("browser-1")
    inventory.take(update((CLUSTER, {"environmentBrowser": browser})))
    told_first = {"runtime.connectionState": "connected", "config.graphicsInfo": cards(card(GPU))}
    inventory.take(update((ESX, told_first), kind="modify"))
    assert inventory.unread_targets() == [("host-1", "browser-1")]
    inventory.take_target("host-1", NOTHING)
    inventory.changes()
    inventory.take(
        update((ESX, {"config.graphicsInfo": cards(card(GPU, ["vm-1"]))}), kind="modify")
    )
    assert inventory.unread_targets() == []
    assert inventory.users() == {"vm-1"}
    inventory.changes()
    mode = cards(card(GPU, vgpuMode="mixedSize"))
    inventory.take(update((ESX, {"config.graphicsInfo": mode}), kind="modify"))
    assert inventory.unread_targets() == [("host-1", "browser-1")]
