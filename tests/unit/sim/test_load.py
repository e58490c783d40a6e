"""A loaded dump shows what the kernel showed: also the links that a dump leaves out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from laneway.sim import dump
from laneway.sim.dump import Block, DumpError
from laneway.sim.host import SimulatedHost
from laneway.sim.load import install, uninstall
from laneway.sim.spec import Spec, build
from laneway.sim.tree import Tree

GPU = "/sys/devices/pci0000:00/0000:00:03.0/0000:08:00.0"
VF = "/sys/devices/pci0000:00/0000:00:03.0/0000:08:00.4"
UUID = "f715f63c-0d00-4007-9c5a-b07b0c6c05de"


@pytest.fixture(scope="module")
def real(a2_dump_path: Path) -> SimulatedHost:
    return build(Spec(path=str(a2_dump_path)), "real")


def test_the_real_dump_is_loaded_completely(real: SimulatedHost, a2_dump_path: Path) -> None:
    for block in dump.read(str(a2_dump_path)):
        home = f"/sys{block.path}"
        for name, value in block.attributes.items():
            assert real.read(f"{home}/{name}") == value
        for name, target in block.links.items():
            assert real.readlink(f"{home}/{name}") == target
        if block.node:
            assert real.read(f"/dev/{block.node}") == block.node_content
        subsystem = real.resolve(f"{home}/subsystem")
        assert subsystem.rpartition("/")[2] == block.properties["SUBSYSTEM"]
    assert len(real.names("/sys/bus/pci/devices")) == 226
    assert len(real.names("/sys/bus/usb/devices")) == 16


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("/sys/bus/pci/devices/0000:08:00.0", GPU),
        ("/sys/bus/pci/drivers/nvidia/0000:08:00.4", VF),
        (f"{VF}/driver", "/sys/bus/pci/drivers/nvidia"),
        (f"{VF}/physfn", GPU),
        (f"{GPU}/virtfn0", VF),
        (f"/sys/bus/mdev/devices/{UUID}", f"{VF}/{UUID}"),
        (f"/sys/bus/mdev/drivers/nvidia-vgpu-vfio/{UUID}", f"{VF}/{UUID}"),
        (f"{VF}/{UUID}/mdev_type", f"{VF}/mdev_supported_types/nvidia-754"),
        (f"{VF}/mdev_supported_types/nvidia-754/devices/{UUID}", f"{VF}/{UUID}"),
        ("/sys/class/mdev_bus/0000:08:00.4", VF),
        ("/sys/kernel/iommu_groups/38/devices/0000:08:00.0", GPU),
        (f"/sys/kernel/iommu_groups/106/devices/{UUID}", f"{VF}/{UUID}"),
        ("/sys/class/vfio/106", "/sys/devices/virtual/vfio/106"),
        ("/sys/class/net/mgmt-br/lower_mgmt-bo", "/sys/devices/virtual/net/mgmt-bo"),
        ("/dev/rtc", "/dev/rtc0"),
    ],
)
def test_links_lead_where_the_kernel_has_them(real: SimulatedHost, link: str, target: str) -> None:
    assert real.resolve(link) == target


def test_block_devices_are_found_by_name_and_number(real: SimulatedHost) -> None:
    disk = real.resolve("/sys/class/block/nvme0n1")
    assert real.resolve("/sys/block/nvme0n1") == disk
    assert real.resolve("/sys/dev/block/259:0") == disk
    assert "nvme0n1p1" not in real.names("/sys/block")


def test_the_uevent_file_has_what_the_kernel_says_and_not_what_udev_adds(
    real: SimulatedHost,
) -> None:
    lines = real.read(f"{GPU}/uevent").decode().splitlines()
    assert "PCI_ID=10DE:25B6" in lines
    assert "DRIVER=nvidia" in lines
    assert not [line for line in lines if line.startswith(("ID_", "SUBSYSTEM", "TAGS"))]
    assert b"DEVNAME=nvme0n1\n" in real.read("/sys/class/block/nvme0n1/uevent")


def test_taking_every_device_away_leaves_nothing_of_it(a2_dump_path: Path) -> None:
    blocks = dump.read(str(a2_dump_path))
    tree = Tree()
    for block in blocks:
        install(tree, block)
    for block in sorted(blocks, key=lambda block: -block.path.count("/")):
        uninstall(tree, block)
    for directory in ("bus/pci/devices", "class/net", "block", "dev/char", "kernel/iommu_groups"):
        assert tree.names(f"/sys/{directory}") == []
    assert not tree.exists("/sys/devices/virtual/net/mgmt-br")
    assert not tree.exists("/dev/nvme0n1")


@pytest.mark.parametrize(
    "blocks",
    [
        [Block(path="/devices/a", attributes={"x": b"", "x/y": b""})],
        [Block(path="/devices/a/x"), Block(path="/devices/a", attributes={"x": b""})],
        [Block(path="/devices/a", links={"x": "."}), Block(path="/devices/a/x")],
        [Block(path="/devices/a", properties={"SUBSYSTEM": "../../etc"})],
        [Block(path="/devices/a", properties={"SUBSYSTEM": "pci", "DRIVER": ".."})],
        [Block(path="/devices/a", properties={"MAJOR": "1/2", "MINOR": "0"})],
        [Block(path="/devices/a", links={"iommu_group": "../../etc/7"})],
        [Block(path="/devices/a", node="x"), Block(path="/devices/b", node="x/y")],
    ],
)
def test_devices_that_contradict_each_other_are_refused(blocks: list[Block]) -> None:
    with pytest.raises(DumpError, match=r"^/devices/.*record the dump again$"):
        SimulatedHost("test", blocks, {})


def test_unplugged_and_plugged_again_a_device_shows_the_same_files(
    a2_dump_path: Path, host_files: Callable[[SimulatedHost], dict[str, str | bytes]]
) -> None:
    host = build(Spec(path=str(a2_dump_path)), "real")
    before = host_files(host)
    network_card = "/sys/bus/pci/devices/0000:04:00.0"
    gone = host.unplug(network_card)
    left = host_files(host)
    derived = ("/sys/bus", "/sys/class", "/sys/kernel", "/sys/devices/pci")
    assert not [path for path in left if path.startswith(derived) and "0000:04:00.0" in path]
    host.plug(gone)
    assert host_files(host) == before
