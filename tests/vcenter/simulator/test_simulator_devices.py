"""By which rules the simulator lets devices be attached, and what clones get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from support.vcenter_client import Client, attached, options, vgpu, whole


class TestRefusals:
    """Why a VM is not reconfigured."""

    def test_nothing_is_attached_while_the_vm_is_on(self, client: Client) -> None:
        vm = client.machine("a")
        client.on(vm)
        with pytest.raises(vim.fault.InvalidPowerState):
            client.reconfigure(vm, vgpu("grid_t4-8q"))

    def test_dynamic_devices_need_vmx_17(self, client: Client) -> None:
        vm = client.clone("a", "ubuntu")
        with pytest.raises(vim.fault.DeviceUnsupportedForVmVersion) as failed:
            client.reconfigure(vm, whole())
        assert failed.value.currentVersion == "vmx-15"
        client.done(vm.UpgradeVM_Task("vmx-17"))
        client.reconfigure(vm, whole())
        with pytest.raises(vim.fault.AlreadyUpgraded):
            client.done(vm.UpgradeVM_Task("vmx-17"))

    def test_keys_of_one_request_differ(self, client: Client) -> None:
        with pytest.raises(vmodl.fault.InvalidArgument, match="same device key"):
            client.machine("a", whole(), whole())

    def test_nested_virtualisation_and_devices_exclude_each_other(self, client: Client) -> None:
        vm = client.machine("a", nestedHVEnabled=True)
        with pytest.raises(vim.fault.GenericVmConfigFault, match="Nested Hardware-Assisted"):
            client.reconfigure(vm, whole())
        other = client.machine("b", whole())
        with pytest.raises(vim.fault.GenericVmConfigFault, match="Nested Hardware-Assisted"):
            client.reconfigure(other, nestedHVEnabled=True)

    def test_a_vm_takes_sixteen_devices(self, client: Client) -> None:
        with pytest.raises(vim.fault.TooManyDevices):
            client.machine("a", *(whole(key=-200 - i) for i in range(17)))

    def test_what_is_not_there_is_not_removed(self, client: Client) -> None:
        vm = client.machine("a")
        remove = vim.vm.device.VirtualDeviceSpec(operation="remove", device=whole(key=13007))
        with pytest.raises(vim.fault.InvalidDeviceSpec):
            client.done(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[remove])))

    def test_a_name_is_taken_once_per_folder(self, client: Client) -> None:
        client.clone("a")
        with pytest.raises(vim.fault.DuplicateName) as failed:
            client.clone("a")
        assert failed.value.name == "a"

    def test_a_clone_goes_to_no_host_of_another_cluster(self, client: Client) -> None:
        with pytest.raises(vmodl.fault.InvalidArgument, match=r"spec\.location\.host"):
            client.clone("a", host="DC0_H0")


class TestReconfigured:
    def test_devices_are_given_keys_from_13000(self, client: Client) -> None:
        vm = client.machine("a", whole(key=-200), whole(key=-201))
        assert [d.key for d in attached(vm)] == [13000, 13001]
        gone = vim.vm.device.VirtualDeviceSpec(operation="remove", device=attached(vm)[0])
        client.done(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[gone])))
        assert [d.key for d in attached(vm)] == [13001]

    def test_an_option_has_one_value_and_an_empty_one_removes_it(self, client: Client) -> None:
        vm = client.machine("a")

        def reported() -> list[str]:
            return [o.value for o in vm.config.extraConfig if o.key == "pciPassthru.x"]

        client.reconfigure(vm, extraConfig=options(x="1"))
        client.reconfigure(vm, extraConfig=options(x="2"))
        assert reported() == ["2"]
        client.reconfigure(vm, extraConfig=options(x=""))
        assert reported() == []

    def test_a_clone_has_devices_of_its_own(self, client: Client) -> None:
        vm = client.clone("a", numCPUs=6, memoryMB=4096)
        assert (vm.config.hardware.numCPU, vm.config.hardware.memoryMB) == (6, 4096)
        assert vm.config.firmware == "efi"
        client.on(vm)
        assert attached(vm)[0].backing.assignedId == "pcip:0000:3b:00.0"
        assert not attached(client.at("vm/ubuntu-with-t4"))[0].backing.assignedId

    def test_a_group_is_attached_whole_and_starts_where_it_is_offered(
        self, begin: Callable[..., Any]
    ) -> None:
        parts = [{"kind": "nvidiaVgpu", "name": "T4", "profile": "grid_t4-8q"}] * 2
        offer = {"name": "pair", "parts": parts}
        simulator, client = begin(device_groups={"DC0_C0_H1": [offer]})
        groups = vim.vm.VirtualDeviceGroups(
            deviceGroup=[
                vim.vm.VirtualDeviceGroups.VendorDeviceGroup(
                    groupInstanceKey=7, deviceGroupName="pair"
                )
            ]
        )

        def part(key: int, sequence: int) -> Any:
            device = vgpu("grid_t4-8q", key)
            device.deviceGroupInfo = vim.vm.device.VirtualDevice.DeviceGroupInfo(
                groupInstanceKey=7, sequenceId=sequence
            )
            return device

        vm = client.machine("a")
        with pytest.raises(vmodl.fault.InvalidArgument, match="deviceGroups"):
            client.reconfigure(vm, part(-200, 0), deviceGroups=groups)
        client.reconfigure(vm, part(-200, 0), part(-201, 1), deviceGroups=groups)
        assert [d.deviceGroupInfo.groupInstanceKey for d in attached(vm)] == [7, 7]
        assert [d["group"] for d in simulator.vms()["a"]["devices"]] == ["pair", "pair"]
        assert client.on(vm) == "DC0_C0_H1"
