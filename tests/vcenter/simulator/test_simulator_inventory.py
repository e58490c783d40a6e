"""What the simulator tells of its hosts, and how changes of it are heard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from support.vcenter import SAMPLE, Simulator
from support.vcenter_client import H100, T4, Client, Listener, Pci, attached, vgpu, whole

CONNECTX_7 = 4129


class TestInventory:
    def test_a_target_lists_what_the_hosts_have(self, client: Client) -> None:
        target = client.at("host/DC0_C0").environmentBrowser.QueryConfigTarget(None)
        assert {d.deviceId for d in target.dynamicPassthrough} == {T4[1], H100[1], CONNECTX_7}
        assert {p.vgpu for p in target.sharedGpuPassthroughTypes} == {
            "grid_t4-16q",
            "grid_t4-8q",
            "grid_t4-4c",
        }
        assert {(p.profileName, p.fbSizeInGib) for p in target.vgpuProfileInfo} == {
            ("grid_t4-16q", 16),
            ("grid_t4-8q", 8),
            ("grid_t4-4c", 4),
        }

    def test_hosts_tell_labels_modes_and_signed_ids(self, client: Client) -> None:
        first, second, _ = client.at("host/DC0_C0").host
        labels = {i.id: i.hardwareLabel for i in first.config.pciPassthruInfo}
        assert labels == {"0000:3b:00.0": "lab-a", "0000:af:00.0": None}
        [override] = first.config.assignableHardwareConfig.attributeOverride
        assert (override.instanceId, override.value) == ("pcip:0000:3b:00.0", "lab-a")
        [board] = second.config.graphicsInfo
        assert (board.graphicsType, board.vgpuMode) == ("sharedDirect", "sameSize")
        assert board.memorySizeInKB == 16 << 20
        assert second.config.graphicsConfig.hostDefaultGraphicsType == "sharedDirect"

    def test_modes_of_boards_are_unknown_before_8_0_3(self, begin: Callable[..., Any]) -> None:
        _, client = begin(api_version="7.0.3.0")
        [board] = client.at("host/DC0_C0").host[1].config.graphicsInfo
        assert board.graphicsType == "sharedDirect"

    def test_groups_of_devices_are_listed(self, begin: Callable[..., Any]) -> None:
        parts = [{"kind": "nvidiaVgpu", "name": "T4", "profile": "grid_t4-8q"}]
        offer = {"name": "pair", "description": "two", "parts": parts * 2}
        _, client = begin(device_groups={"DC0_C0_H1": [offer]})
        target = client.at("host/DC0_C0").environmentBrowser.QueryConfigTarget(None)
        [group] = target.vendorDeviceGroupInfo
        assert (group.deviceGroupName, group.deviceGroupDescription) == ("pair", "two")
        assert [c.type for c in group.componentDeviceInfo] == ["nvidiaVgpu"] * 2
        assert group.componentDeviceInfo[0].device.backing.vgpu == "grid_t4-8q"

    def test_templates_have_their_version_and_devices(self, client: Client) -> None:
        plain, fitted = client.at("vm/ubuntu"), client.at("vm/ubuntu-with-t4")
        assert (plain.config.template, plain.config.version) == (True, "vmx-15")
        assert (fitted.config.version, len(attached(fitted))) == ("vmx-17", 1)

    def test_a_large_inventory_is_there_at_once(self, begin: Callable[..., Any]) -> None:
        gpus = [{**SAMPLE["hosts"]["DC0_C0_H2"][0], "id": f"0000:{i:02x}:00.0"} for i in range(8)]
        inventory = {f"DC0_C0_H{i}": gpus for i in range(200)}
        simulator, _ = begin(inventory, hosts=200)
        assert len(simulator.state()["gpus"]) == 1600


class TestNews:
    @pytest.mark.parametrize("path", ["config", "config.graphicsInfo"])
    def test_a_watch_of_a_host_has_its_boards(self, client: Client, path: str) -> None:
        def used(value: Any) -> bool:
            boards = value.graphicsInfo if path == "config" else value
            return any(board.vm for board in boards)

        heard = Listener(client, client.host("DC0_C0_H1"), path)
        client.on(client.machine("a", vgpu("grid_t4-8q")))
        assert heard.until(used)

    def test_and_of_maintenance_and_labels(self, vcenter: Simulator, client: Client) -> None:
        host = client.host("DC0_C0_H0")
        heard = Listener(client, host, "runtime.inMaintenanceMode")
        vcenter.change_host("DC0_C0_H0", maintenance=True)
        assert heard.until(lambda value: value is True)
        heard = Listener(client, host, "config.pciPassthruInfo")
        vcenter.change_device("DC0_C0_H0", "0000:af:00.0", label="lab-b")
        assert heard.until(lambda value: value[1].hardwareLabel == "lab-b")
        vcenter.change_device("DC0_C0_H0", "0000:af:00.0", mode="direct")
        assert heard.until(lambda value: not value[1].passthruActive)

    def test_a_device_may_go_from_a_vm_that_is_on(self, vcenter: Simulator, client: Client) -> None:
        vm = client.machine("a", whole(), whole(key=-201))
        client.on(vm)
        heard = Listener(client, vm, "config.hardware.device")
        vcenter.detach("a", 13000)
        assert heard.until(lambda value: [d.key for d in value if isinstance(d, Pci)] == [13001])
        assert list(vcenter.users()) == [("DC0_C0_H0", "0000:af:00.0")]

    def test_drs_is_switched(self, vcenter: Simulator, client: Client) -> None:
        heard = Listener(client, client.at("host/DC0_C0"), "configurationEx")
        vcenter.change_cluster("DC0_C0", drs=False)
        assert heard.until(lambda value: value.drsConfig.enabled is False)
