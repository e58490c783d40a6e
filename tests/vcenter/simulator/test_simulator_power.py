"""Where the simulator starts VMs, why not, and what guests tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim

from support.vcenter import Simulator
from support.vcenter_client import H100, Client, Listener, options, vgpu, whole


def shared(mode: str, *profiles: tuple[str, int, str, int]) -> dict[str, Any]:
    return {
        "id": "0000:17:00.0",
        "vendorId": 0x10DE,
        "deviceId": 0x20B5,
        "name": "A100 80GB",
        "fbGiB": 80,
        "mode": "sharedDirect",
        "vgpuMode": mode,
        "profiles": [
            {"name": name, "fbGiB": size, "class": "compute", "sharing": sharing, "slices": slices}
            for name, size, sharing, slices in profiles
        ],
    }


TIME_SLICED = (
    ("grid_a100-10c", 10, "timeSliced", 0),
    ("grid_a100-20c", 20, "timeSliced", 0),
    ("grid_a100-40c", 40, "timeSliced", 0),
)
PIECES = (("grid_a100-3-40c", 40, "mig", 3), ("grid_a100-1-10c", 10, "mig", 1))


class TestPowerOn:
    def test_memory_is_locked(self, client: Client) -> None:
        vm = client.machine("a", whole(), memoryReservationLockedToMax=False)
        with pytest.raises(vim.fault.GenericVmConfigFault, match=r"sched\.mem\.min"):
            client.on(vm)

    def test_drs_finds_the_host_with_room_and_all_tell_of_it(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a", vgpu("grid_t4-8q"))
        assert client.on(vm) == "DC0_C0_H1"
        assert vm in vm.runtime.host.vm
        assert list(vm.runtime.host.config.graphicsInfo[0].vm) == [vm]
        assert vcenter.users() == {("DC0_C0_H1", "0000:3b:00.0"): {"a": ["grid_t4-8q"]}}
        client.done(vm.PowerOffVM_Task())
        assert vcenter.users() == {}
        assert not vm.runtime.host.config.graphicsInfo[0].vm

    def test_a_whole_device_is_bound_while_the_vm_is_on(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a", whole(label="lab-a"))
        assert client.on(vm) == "DC0_C0_H0"
        [binding] = vm.runtime.host.config.assignableHardwareBinding
        assert (binding.instanceId, binding.vm) == ("pcip:0000:3b:00.0", vm)
        client.done(vm.PowerOffVM_Task())
        client.done(vm.Destroy_Task())
        assert vcenter.users() == {}

    def test_vgpus_of_a_board_have_one_size(self, client: Client) -> None:
        client.on(client.machine("a", vgpu("grid_t4-4c")))
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(client.machine("b", vgpu("grid_t4-8q")))
        for name in "cde":
            client.on(client.machine(name, vgpu("grid_t4-4c")))
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(client.machine("f", vgpu("grid_t4-4c")))

    def test_a_mixed_board_takes_all_sizes(self, begin: Callable[..., Any]) -> None:
        _, client = begin({"DC0_C0_H0": [shared("mixedSize", *TIME_SLICED)]})
        for name, profile in zip("ab", ("grid_a100-40c", "grid_a100-20c"), strict=True):
            client.on(client.machine(name, vgpu(profile)))
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(client.machine("c", vgpu("grid_a100-40c")))
        client.on(client.machine("d", vgpu("grid_a100-10c")))

    def test_a_board_in_pieces_takes_pieces_only(self, begin: Callable[..., Any]) -> None:
        board = shared("multiInstanceGpu", *TIME_SLICED, *PIECES)
        _, client = begin({"DC0_C0_H0": [board]})
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(client.machine("a", vgpu("grid_a100-10c")))
        for name in ("b", "c"):
            client.on(client.machine(name, vgpu("grid_a100-3-40c")))
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(client.machine("d", vgpu("grid_a100-1-10c")))

    def test_vgpus_need_shared_direct_by_default(self, vcenter: Simulator, client: Client) -> None:
        vcenter.change_host("DC0_C0_H1", default_graphics="shared")
        vm = client.machine("a", vgpu("grid_t4-4c"))
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(vm)

    def test_a_device_in_use_and_a_free_one(self, client: Client) -> None:
        client.on(client.machine("a", whole(), whole(key=-201)))
        with pytest.raises(vim.fault.InsufficientHostCapacityFault):
            client.on(client.machine("b", whole()))
        with pytest.raises(vim.fault.NoCompatibleHost, match="No host is compatible"):
            client.on(client.machine("c", whole((0x10DE, 0x1234))))

    def test_large_cards_need_uefi_and_room_above_4_gib(self, client: Client) -> None:
        vm = client.machine("a", whole(H100))
        with pytest.raises(vim.fault.GenericVmConfigFault, match="DevicePowerOn"):
            client.on(vm)
        keys = {"use64bitMMIO": "TRUE", "64bitMMIOSizeGB": "256"}
        client.reconfigure(vm, extraConfig=options(**keys), firmware="bios")
        with pytest.raises(vim.fault.GenericVmConfigFault, match="DevicePowerOn"):
            client.on(vm)
        client.reconfigure(vm, firmware="efi")
        assert client.on(vm) == "DC0_C0_H2"

    def test_without_drs_a_vm_stays_on_its_host(self, begin: Callable[..., Any]) -> None:
        simulator, client = begin(drs=False)
        config = client.at("host/DC0_C0").configurationEx.drsConfig
        assert config.enabled is False
        vm = client.machine("a", vgpu("grid_t4-8q"), host="DC0_C0_H2")
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(vm)
        client.done(vm.RelocateVM_Task(vim.vm.RelocateSpec(host=client.host("DC0_C0_H1"))))
        assert client.on(vm) == "DC0_C0_H1"
        assert simulator.vms()["a"]["host"] == "DC0_C0_H1"
        with pytest.raises(vim.fault.DeviceNotSupported):
            client.done(vm.RelocateVM_Task(vim.vm.RelocateSpec(host=client.host("DC0_C0_H0"))))

    def test_hosts_in_maintenance_or_disconnected_start_nothing(
        self, vcenter: Simulator, client: Client
    ) -> None:
        vm = client.machine("a", vgpu("grid_t4-8q"))
        vcenter.change_host("DC0_C0_H1", maintenance=True)
        assert client.host("DC0_C0_H1").runtime.inMaintenanceMode
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(vm)
        vcenter.change_host("DC0_C0_H1", maintenance=False, connected=False)
        assert client.host("DC0_C0_H1").runtime.connectionState == "disconnected"
        with pytest.raises(vim.fault.InsufficientGraphicsResourcesFault):
            client.on(vm)
        vcenter.change_host("DC0_C0_H1", connected=True)
        assert client.on(vm) == "DC0_C0_H1"

    def test_must_run_rules_are_respected(self, begin: Callable[..., Any]) -> None:
        _, client = begin(
            settings={
                "DC0_C0": {
                    "hostGroups": {"left": ["DC0_C0_H1"]},
                    "vmGroups": {"left-vms": []},
                    "mustRun": {"left-vms": "left"},
                }
            }
        )
        cluster = client.at("host/DC0_C0")
        vm = client.machine("a", whole())
        group = vim.cluster.VmGroup(name="left-vms", vm=[vm])
        spec = vim.cluster.GroupSpec(operation="edit", info=group)
        change = vim.cluster.ConfigSpecEx(groupSpec=[spec])
        client.done(cluster.ReconfigureComputeResource_Task(change, True))
        with pytest.raises(vim.fault.NoCompatibleHost):
            client.on(vm)

    def test_a_fault_can_be_one_hosts(self, begin: Callable[..., Any]) -> None:
        simulator, client = begin(drs=False)
        simulator.fail(
            "PowerOnVM_Task", "GenericVmConfigFault", "Card broken.", host="DC0_C0_H0", times=-1
        )
        vm = client.machine("a", host="DC0_C0_H0")
        with pytest.raises(vim.fault.GenericVmConfigFault, match="Card broken"):
            client.on(vm)
        assert client.on(client.machine("b", host="DC0_C0_H1")) == "DC0_C0_H1"


class TestGuests:
    def test_a_vm_has_an_address_while_it_is_on(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a")
        client.on(vm)
        assert vm.guest.ipAddress == vcenter.vms()["a"]["ip"] == vm.guest.net[0].ipAddress[0]
        vm.ShutdownGuest()
        assert vm.runtime.powerState == "poweredOff"
        assert not vm.guest.ipAddress

    def test_a_guest_may_be_mute_and_deaf(self, vcenter: Simulator, client: Client) -> None:
        vcenter.guests(addresses=False, shutdown=False)
        vm = client.machine("a")
        client.on(vm)
        vm.ShutdownGuest()
        assert vm.runtime.powerState == "poweredOn"
        assert not vm.guest.ipAddress

    def test_a_guest_tells_what_is_on_no_card_and_then_its_own(
        self, vcenter: Simulator, client: Client
    ) -> None:
        others = {"": ["fe80::1"], "02:42:ac:11:00:01": ["172.17.0.1"]}
        vcenter.guests(addresses=False, others=others)
        vm = client.machine("a")
        client.on(vm)
        assert [one for card in vm.guest.net for one in card.ipAddress] == ["172.17.0.1", "fe80::1"]
        vcenter.guests(others=others)
        assert vm.guest.ipAddress.startswith("10.")
        assert vm.guest.ipAddress in vm.guest.net[-1].ipAddress

    def test_an_address_may_come_later(self, vcenter: Simulator, client: Client) -> None:
        vcenter.guests(delay=100)
        vm = client.machine("a")
        heard = Listener(client, vm, "guest.ipAddress")
        client.on(vm)
        assert str(heard.until(bool)).startswith("10.")
