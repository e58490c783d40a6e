"""What an agent shows of a host, and how it follows what happens to it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from laneway.api import (
    CoreNode,
    DeviceNode,
    PCIDevice,
    SRIOVGPUDevice,
    SRIOVNetworkDevice,
    USBDevice,
    VGPUDevice,
    find_condition,
)
from laneway.kube.resource import served


@pytest.mark.realapi
async def test_a_simulated_a2_is_shown_as_harvester_users_know_it(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))

    gpu = await cluster.get(SRIOVGPUDevice, "node1-000008000")
    assert gpu.spec.enabled
    assert list(gpu.status.vgpu_devices)[:2] == ["node1-000008004", "node1-000008005"]
    assert list(gpu.status.vgpu_devices)[-1] == "node1-000008023"
    assert len(gpu.status.vf_addresses) == 16

    device = await cluster.get(PCIDevice, "node1-000008000")
    assert device.metadata.labels["nodename"] == "node1"
    assert device.metadata.annotations["harvesterhci.io/pcideviceDriver"] == "nvidia"
    assert device.status.address == "0000:08:00.0"
    assert device.status.vendor_id == "10de"
    assert device.status.class_id == "0302"
    assert "GA107GL [A2 / A16]" in device.status.description

    virtual = await cluster.get(PCIDevice, "node1-000008004")
    assert virtual.metadata.labels["harvesterhci.io/parentSRIOVGPUDevice"] == "node1-000008000"

    vgpu = await cluster.get(VGPUDevice, "node1-000008004")
    assert not vgpu.spec.enabled
    assert vgpu.status.available_types["NVIDIA A2-4Q"].startswith("nvidia-")
    assert len(await cluster.names(VGPUDevice)) == 16


@pytest.mark.slow
async def test_every_bridge_but_no_pci_bridge_is_shown(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))

    classes = {device.status.class_id for device in await cluster.all(PCIDevice)}

    assert "0600" in classes
    assert "0604" not in classes


async def test_what_the_node_needs_is_not_claimable_and_says_why(cluster, simulated):
    await cluster.start_agent("node1", simulated("plain", "node1"))

    critical = {
        device.metadata.name: device
        for device in await cluster.all(PCIDevice)
        if device.status.critical
    }

    words = " ".join(reason for d in critical.values() for reason in d.status.critical)
    assert "root file system" in words
    assert "default route" in words
    for device in critical.values():
        assert device.status.claimable is False
        condition = find_condition(device.status.conditions, "Claimable")
        assert condition is not None
        assert condition.status == "False"
        assert condition.message


async def test_the_management_card_is_not_offered_for_division(cluster, simulated):
    await cluster.start_agent("node1", simulated("plain", "node1"))

    critical = {d.status.address for d in await cluster.all(PCIDevice) if d.status.critical}
    cards = await cluster.all(SRIOVNetworkDevice)

    assert cards
    assert not {card.spec.address for card in cards} & critical
    for card in cards:
        interface = card.metadata.annotations["sriov.devices.harvesterhi.io/interface-name"]
        assert card.metadata.name == f"node1-{interface}"


async def test_usb_devices_say_that_they_are_not_enabled(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    resource = served(USBDevice)

    devices = await cluster.all(USBDevice)
    raw = await cluster.client.raw(resource.path("", devices[0].metadata.name))

    assert b'"enabled":false' in raw.replace(b" ", b"")
    for device in devices:
        assert device.status.resource_name == f"kubevirt.io/{device.metadata.name}"
        assert device.status.device_path.startswith("/dev/bus/usb/")


async def test_the_driver_label_comes_with_a_gpu_and_goes_with_it(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.client.create(served(CoreNode), {"metadata": {"name": "node1"}})
    await cluster.start_agent("node1", host)
    label = "sriovgpu.harvesterhci.io/driver-needed"

    await cluster.until(CoreNode, "node1", lambda node: node.metadata.labels.get(label) == "true")
    host.unplug("/sys/bus/pci/devices/0000:08:00.0")
    await cluster.until(CoreNode, "node1", lambda node: label not in node.metadata.labels)


@pytest.mark.realapi
async def test_objects_of_a_device_that_is_gone_are_removed(cluster, simulated):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    before = await cluster.names(PCIDevice)

    host.unplug("/sys/bus/pci/devices/0000:08:00.0")

    await cluster.until(SRIOVGPUDevice, "node1-000008000", lambda gpu: gpu is None)
    await cluster.until(VGPUDevice, "node1-000008004", lambda vgpu: vgpu is None)
    await cluster.until(VGPUDevice, "node1-000008023", lambda vgpu: vgpu is None)
    await cluster.until(PCIDevice, "node1-000008023", lambda device: device is None)
    await cluster.until(PCIDevice, "node1-000008000", lambda device: device is None)
    gone = before - await cluster.names(PCIDevice)
    assert len(gone) == 17


@pytest.mark.slow
async def test_vgpus_keep_their_desired_state_while_their_gpu_waits_for_its_functions(
    cluster, simulated
):
    host = simulated("a2", "node1")
    await cluster.start_agent("node1", host)
    await cluster.patch(
        VGPUDevice,
        "node1-000008004",
        {"spec": {"enabled": True, "vGPUTypeName": "NVIDIA A2-4Q"}},
    )
    configured = await cluster.until(
        VGPUDevice, "node1-000008004", lambda v: v.status.vgpu_status == "vGPUConfigured"
    )

    host.unplug("/sys/bus/pci/devices/0000:08:00.4")

    waiting = await cluster.until(
        VGPUDevice, "node1-000008004", lambda v: v.status.vgpu_status == ""
    )
    assert configured.status.uuid
    assert waiting.spec.vgpu_type_name == "NVIDIA A2-4Q"
    condition = find_condition(waiting.status.conditions, "Ready")
    assert condition.status == "False"
    assert condition.reason == "VfNotFound"


@pytest.mark.slow
@pytest.mark.realapi
async def test_agents_leave_each_others_objects_alone(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    await cluster.start_agent("node2", simulated("plain", "node2"))

    labels = {device.metadata.labels["nodename"] for device in await cluster.all(PCIDevice)}

    assert labels == {"node1", "node2"}
    assert await cluster.names(DeviceNode) == {"node1", "node2"}
    assert len(await cluster.names(VGPUDevice)) == 16


@pytest.mark.realapi
async def test_a_restarted_agent_writes_nothing_that_is_already_right(cluster, simulated):
    host = simulated("a2", "node1")
    first = await cluster.start_agent("node1", host)
    await cluster.stop_agent(first)
    before = {d.metadata.name: d.metadata.resource_version for d in await cluster.all(PCIDevice)}
    written = cluster.metric("laneway_api_writes_total")

    await cluster.start_agent("node1", host)

    after = {d.metadata.name: d.metadata.resource_version for d in await cluster.all(PCIDevice)}
    assert after == before
    assert cluster.metric("laneway_api_writes_total") == written


@pytest.mark.realapi
async def test_a_deleted_object_comes_back(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))
    old = await cluster.get(PCIDevice, "node1-000008000")

    await cluster.client.delete(served(PCIDevice), "node1-000008000")

    new = await cluster.until(
        PCIDevice,
        "node1-000008000",
        lambda device: device is not None and device.status.address != "",
    )
    assert new.metadata.uid != old.metadata.uid


@pytest.mark.realapi
async def test_a_status_that_was_falsified_is_put_right(cluster, simulated):
    await cluster.start_agent("node1", simulated("a2", "node1"))

    await cluster.patch(
        PCIDevice, "node1-000008000", {"status": {"iommuGroup": "999"}}, sub="status"
    )

    device = await cluster.until(
        PCIDevice, "node1-000008000", lambda device: device.status.iommu_group != "999"
    )
    assert device.status.iommu_group == "11"


@pytest.mark.slow
@pytest.mark.realapi
async def test_a_real_server_is_adopted_as_it_runs(cluster, simulated, a2_dump_path: Path):
    await cluster.start_agent("real", simulated(str(a2_dump_path), "real"))

    configured = {
        vgpu.metadata.name: vgpu
        for vgpu in await cluster.all(VGPUDevice)
        if vgpu.status.vgpu_status == "vGPUConfigured"
    }

    assert len(await cluster.names(VGPUDevice)) == 16
    assert len(configured) == 3
    assert all(vgpu.spec.enabled for vgpu in configured.values())
    assert {vgpu.spec.vgpu_type_name for vgpu in configured.values()} == {
        "NVIDIA A2-4A",
        "NVIDIA A2-4C",
        "NVIDIA A2-4Q",
    }
    assert configured["real-000008004"].status.uuid == "f715f63c-0d00-4007-9c5a-b07b0c6c05de"


class UnreadableHost:
    """A simulated host on which a directory cannot be listed while `failing` is true."""

    def __init__(self, host) -> None:
        self._host = host
        self.failing = False

    def __getattr__(self, name: str):
        return getattr(self._host, name)

    def names(self, path: str) -> list[str]:
        """Fail for the list of PCI devices."""
        if self.failing and path.rstrip("/") == "/sys/bus/pci/devices":
            raise OSError(errno.EIO, "Input/output error", path)
        return self._host.names(path)


@pytest.mark.slow
async def test_a_scan_that_fails_proves_nothing_gone(cluster, simulated):
    inner = simulated("a2", "node1")
    host = UnreadableHost(inner)
    await cluster.start_agent("node1", host)
    before = await cluster.names(PCIDevice)

    host.failing = True
    inner.unplug("/sys/bus/usb/devices/1-3")  # with any event the agent reads the list

    node = await cluster.until(
        DeviceNode,
        "node1",
        lambda node: find_condition(node.status.conditions, "Ready").status == "False",
    )
    assert "/sys/bus/pci/devices" in find_condition(node.status.conditions, "Ready").message
    assert await cluster.names(PCIDevice) == before
    assert len(await cluster.names(VGPUDevice)) == 16
