"""Simulated functions find drivers, have VFs and go away as Linux lets them."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from laneway.core.kernel.uevent import Uevent
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"
DRIVERS = "/sys/bus/pci/drivers"
PROBE = "/sys/bus/pci/drivers_probe"
NVME, VF = "0000:0a:00.0", "0000:0a:00.1"
GPU, AUDIO = "0000:08:00.0", "0000:08:00.1"
NIC = "0000:17:00.0"
Snapshot = Callable[[SimulatedHost], dict[str, str | bytes]]


@pytest.fixture
def host() -> SimulatedHost:
    return build(parse_spec("workstation"), "node")


@pytest.fixture
def server() -> SimulatedHost:
    return build(parse_spec("plain"), "node")


def text(host: SimulatedHost, path: str) -> str:
    return host.read(path).decode().strip()


def errno_of(host: SimulatedHost, path: str, data: str) -> int:
    try:
        host.write(path, data)
    except OSError as error:
        return error.errno or 0
    return 0


def driver(host: SimulatedHost, address: str) -> str:
    try:
        link = host.resolve(f"{PCI}/{address}/driver")
    except FileNotFoundError:
        return ""
    name = link.rpartition("/")[2]
    assert address in host.names(f"{DRIVERS}/{name}")
    assert f"DRIVER={name}\n" in host.read(f"{PCI}/{address}/uevent").decode()
    return name


def give(host: SimulatedHost, address: str, to: str) -> None:
    """As a person at the shell does it; an empty driver is the one that matches by id."""
    host.write(f"{PCI}/{address}/driver_override", to or "\n")
    if driver(host, address):
        host.write(f"{PCI}/{address}/driver/unbind", address)
    host.write(PROBE, address)


def vfs(host: SimulatedHost, address: str) -> list[str]:
    names = [name for name in host.names(f"{PCI}/{address}") if name.startswith("virtfn")]
    names.sort(key=lambda name: int(name.removeprefix("virtfn")))
    return [host.readlink(f"{PCI}/{address}/{name}").rpartition("/")[2] for name in names]


async def take(events: AsyncIterator[Uevent], count: int) -> list[tuple[str, str]]:
    async with asyncio.timeout(30):
        found = [await anext(events) for _ in range(count)]
    return [(event.action, event.devpath.rpartition("/")[2]) for event in found]


# ---- drivers -----------------------------------------------------------------


def test_a_function_goes_to_vfio_pci_and_comes_back_with_all_that_hung_below_it(
    host: SimulatedHost, host_files: Snapshot
) -> None:
    before = host_files(host)
    for address in (NVME, GPU, AUDIO):
        had = driver(host, address)
        give(host, address, "vfio-pci")
        assert driver(host, address) == "vfio-pci"
        assert text(host, f"{PCI}/{address}/enable") == "0"
        give(host, address, "")
        assert driver(host, address) == had
    # Taking the GPU's memory, vfio-pci sent the framebuffer away: nothing brings that back.
    host.write("/sys/bus/platform/drivers/efi-framebuffer/bind", "efi-framebuffer.0")
    assert host_files(host) == before


def test_what_hangs_below_a_function_goes_with_its_driver(server: SimulatedHost) -> None:
    assert server.exists("/dev/nvme1n1")
    assert server.exists("/sys/class/net/ens1f0")
    server.write(f"{DRIVERS}/nvme/unbind", "0000:08:00.0")
    server.write(f"{PCI}/{NIC}/driver/unbind", NIC)
    for path in ("/dev/nvme1n1", "/sys/class/block/nvme1n1", "/sys/class/net/ens1f0"):
        assert not server.exists(path)
    assert server.exists("/sys/class/net/ens1f1")


def test_a_port_without_its_driver_keeps_the_functions_behind_it(host: SimulatedHost) -> None:
    host.write(f"{DRIVERS}/pcieport/unbind", "0000:00:03.0")
    assert driver(host, "0000:00:03.0") == ""
    assert driver(host, GPU) == "nvidia"


@pytest.mark.parametrize("address", [NVME, GPU, AUDIO, "0000:00:14.0", "0000:04:00.0"])
def test_the_driver_that_a_function_had_is_the_one_that_takes_it(
    host: SimulatedHost, address: str
) -> None:
    had = driver(host, address)
    host.write(f"{PCI}/{address}/driver/unbind", address + "\n")
    assert driver(host, address) == ""
    host.write(PROBE, address + "\n")
    assert driver(host, address) == had


def test_an_override_names_the_only_driver(host: SimulatedHost) -> None:
    override = f"{PCI}/{NVME}/driver_override"
    assert text(host, override) == "(null)"
    host.write(override, "vfio-pcy\n")
    assert text(host, override) == "vfio-pcy"
    host.write(f"{DRIVERS}/nvme/unbind", NVME)
    assert errno_of(host, PROBE, NVME) == 0
    assert driver(host, NVME) == ""
    assert errno_of(host, f"{DRIVERS}/nvme/bind", NVME) == errno.ENODEV
    host.write(override, "")
    assert text(host, override) == "vfio-pcy"
    assert errno_of(host, override, "x" * 4096) == errno.EINVAL
    host.write(override, "\n")
    assert text(host, override) == "(null)"
    host.write(PROBE, NVME)
    assert driver(host, NVME) == "nvme"


@pytest.mark.parametrize(
    ("path", "data", "expected"),
    [
        (f"{DRIVERS}/nvme/bind", NVME, errno.EBUSY),
        (f"{DRIVERS}/vfio-pci/bind", NVME, errno.ENODEV),
        (f"{DRIVERS}/nvme/bind", GPU, errno.ENODEV),
        (f"{DRIVERS}/nvme/bind", "0000:ff:00.0", errno.ENODEV),
        (f"{DRIVERS}/nvme/bind", "../devices/" + NVME, errno.ENODEV),
        (f"{DRIVERS}/vfio-pci/unbind", NVME, errno.ENODEV),
        (f"{DRIVERS}/nvme/unbind", "0000:ff:00.0", errno.ENODEV),
        (f"{DRIVERS}/none/bind", NVME, errno.ENOENT),
        (PROBE, "0000:ff:00.0", errno.EINVAL),
        (PROBE, NVME, 0),
        (f"{PCI}/{NVME}/enable", "1", errno.EBUSY),
        (f"{PCI}/{NVME}/reset", "2", errno.EINVAL),
        (f"{PCI}/{NVME}/reset", "x", errno.EINVAL),
        (f"{PCI}/{NVME}/reset", "1", 0),
        (f"{PCI}/0000:00:1f.0/reset", "1", errno.ENOENT),
        (f"{PCI}/{NVME}/vendor", "1", errno.EACCES),
        (f"{PCI}/{NVME}/sriov_drivers_autoprobe", "maybe", errno.EINVAL),
    ],
)
def test_a_wrong_write_has_the_kernels_errno(
    host: SimulatedHost, host_files: Snapshot, path: str, data: str, expected: int
) -> None:
    before = host_files(host)
    assert errno_of(host, path, data) == expected
    assert host_files(host) == before


def test_a_failed_probe_is_reported_by_bind_only(host: SimulatedHost) -> None:
    host.write(f"{DRIVERS}/nvme/unbind", NVME)
    host.faults.fail_probe(2, errno.EIO)
    assert errno_of(host, PROBE, NVME) == 0
    assert driver(host, NVME) == ""
    assert errno_of(host, f"{DRIVERS}/nvme/bind", NVME) == errno.EIO
    assert driver(host, NVME) == ""
    assert errno_of(host, f"{DRIVERS}/nvme/bind", NVME) == 0
    assert driver(host, NVME) == "nvme"


async def test_drivers_that_probe_later_bind_after_the_write(host: SimulatedHost) -> None:
    host.write(f"{DRIVERS}/nvme/unbind", NVME)
    host.faults.asynchronous_probing = True
    async with host.uevents() as events:
        host.write(PROBE, NVME)
        async with asyncio.timeout(30):
            while (await anext(events)).action != "bind":
                pass
    assert driver(host, NVME) == "nvme"


async def test_a_driver_is_announced_as_it_comes_and_goes(host: SimulatedHost) -> None:
    async with host.uevents() as events:
        host.write(f"{PCI}/{AUDIO}/driver/unbind", AUDIO)
        host.write(PROBE, AUDIO)
        seen = await take(events, 6)
    below = ["controlC0", "card0"]
    assert seen == [
        *(("remove", name) for name in below),
        ("unbind", AUDIO),
        *(("add", name) for name in reversed(below)),
        ("bind", AUDIO),
    ]


# ---- virtual functions -------------------------------------------------------


def test_vfs_come_in_the_order_of_their_numbers_and_go(
    host: SimulatedHost, host_files: Snapshot
) -> None:
    before = host_files(host)
    switch = f"{PCI}/{NVME}/sriov_numvfs"
    host.write(switch, "4")
    found = vfs(host, NVME)
    assert found == [f"0000:0a:00.{n}" for n in (1, 2, 3, 4)]
    assert text(host, switch) == "4"
    groups = {host.resolve(f"{PCI}/{vf}/iommu_group") for vf in found}
    assert len(groups) == len(found)
    for vf in found:
        assert host.resolve(f"{PCI}/{vf}/physfn") == host.resolve(f"{PCI}/{NVME}")
        assert driver(host, vf) == "nvme"
        assert text(host, f"{PCI}/{vf}/device") == "0x0010"
    host.write(switch, "0")
    assert host_files(host) == before


def test_vfs_leave_the_slot_of_their_pf() -> None:
    host = build(parse_spec("a2"), "node")
    found = vfs(host, "0000:08:00.0")
    assert [found[3], found[4], found[15]] == ["0000:08:00.7", "0000:08:01.0", "0000:08:02.3"]


def test_vfs_that_never_were_follow_from_their_card(server: SimulatedHost) -> None:
    server.write(f"{PCI}/{NIC}/sriov_numvfs", "128")
    first, *_, last = vfs(server, NIC)
    assert (first, last) == ("0000:17:01.0", "0000:17:10.7")
    assert driver(server, first) == "iavf"
    assert text(server, f"{PCI}/{first}/device") == "0x1889"
    ranges = []
    for vf in vfs(server, NIC):
        for line in text(server, f"{PCI}/{vf}/resource").splitlines():
            begin, end, flags = (int(word, 16) for word in line.split())
            if flags:
                ranges.append((begin, end))
    ranges.sort()
    assert all(a[1] < b[0] for a, b in pairwise(ranges))


@pytest.mark.parametrize(
    ("before", "data", "expected"),
    [
        ("0", "5", errno.ERANGE),
        ("0", "-1", errno.EINVAL),
        ("0", "many", errno.EINVAL),
        ("0", "70000", errno.EINVAL),
        ("0", "0x4\n", 0),
        ("4", "2", errno.EBUSY),
        ("4", "4", 0),
        ("4", "5", errno.ERANGE),
    ],
)
def test_the_number_of_vfs_goes_to_and_from_zero_only(
    host: SimulatedHost, before: str, data: str, expected: int
) -> None:
    host.write(f"{PCI}/{NVME}/sriov_numvfs", before)
    assert errno_of(host, f"{PCI}/{NVME}/sriov_numvfs", data) == expected


@pytest.mark.parametrize("had", ["vfio-pci", "none"])
def test_only_a_driver_that_knows_sriov_makes_vfs(host: SimulatedHost, had: str) -> None:
    give(host, NVME, had)
    switch = f"{PCI}/{NVME}/sriov_numvfs"
    assert errno_of(host, switch, "2") == errno.ENOENT
    assert errno_of(host, switch, "0") == 0
    assert errno_of(host, switch, "9") == errno.ERANGE


def test_vfio_pci_refuses_a_card_with_vfs(host: SimulatedHost) -> None:
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "1")
    give(host, NVME, "vfio-pci")
    assert driver(host, NVME) == ""
    assert errno_of(host, f"{DRIVERS}/vfio-pci/bind", NVME) == errno.EBUSY


def test_a_network_driver_takes_its_vfs_with_it(server: SimulatedHost) -> None:
    server.write(f"{PCI}/{NIC}/sriov_numvfs", "2")
    server.write(f"{PCI}/{NIC}/driver/unbind", NIC)
    assert vfs(server, NIC) == []
    server.write(PROBE, NIC)
    assert text(server, f"{PCI}/{NIC}/sriov_numvfs") == "0"
    assert server.exists("/sys/class/net/ens1f0")


def test_without_autoprobe_only_an_override_gives_a_vf_a_driver(host: SimulatedHost) -> None:
    host.write(f"{PCI}/{NVME}/sriov_drivers_autoprobe", "0")
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "1")
    assert driver(host, VF) == ""
    host.write(PROBE, VF)
    assert driver(host, VF) == ""
    assert errno_of(host, f"{DRIVERS}/nvme/bind", VF) == errno.ENODEV
    give(host, VF, "vfio-pci")
    assert driver(host, VF) == "vfio-pci"


async def test_a_vf_is_announced_before_its_links_and_the_card_at_the_end(
    host: SimulatedHost,
) -> None:
    async with host.uevents() as events:
        host.write(f"{PCI}/{NVME}/sriov_numvfs", "2")
        seen = await take(events, 7)
        of_one = [("add", VF), ("change", VF), ("bind", VF)]
        assert seen[:3] == of_one
        assert seen[-1] == ("change", NVME)
        host.write(f"{PCI}/{NVME}/sriov_numvfs", "0")
        assert (await take(events, 2)) == [("unbind", VF), ("remove", VF)]


def test_group_numbers_of_vfs_go_to_the_next_device(host: SimulatedHost) -> None:
    switch = f"{PCI}/{NVME}/sriov_numvfs"
    host.write(switch, "4")
    numbers = [host.resolve(f"{PCI}/{vf}/iommu_group") for vf in vfs(host, NVME)]
    host.write(switch, "0")
    host.write(f"{PCI}/{AUDIO}/remove", "1")
    host.write(switch, "1")
    assert host.resolve(f"{PCI}/{VF}/iommu_group") == numbers[0]


def test_vfs_share_a_group_that_their_card_shares() -> None:
    """Without access control between a card and its port all VFs are in one group with them."""
    source = build(parse_spec("workstation"), "node")
    blocks = [source._devices[path] for path in source._devices]
    port = next(block for block in blocks if block.path.endswith("/0000:00:05.0"))
    shared = [
        msgspec.structs.replace(
            block, links={**block.links, "iommu_group": "../" + port.links["iommu_group"]}
        )
        if block.path.endswith(f"/{NVME}")
        else block
        for block in blocks
    ]
    host = SimulatedHost("node", shared, {})
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "2")
    group = host.resolve(f"{PCI}/0000:00:05.0/iommu_group")
    assert {host.resolve(f"{PCI}/{vf}/iommu_group") for vf in vfs(host, NVME)} == {group}


# ---- coming and going --------------------------------------------------------


def test_a_removed_function_comes_back_with_a_rescan(
    server: SimulatedHost, host_files: Snapshot
) -> None:
    server.write(f"{PCI}/{NIC}/sriov_numvfs", "2")
    server.write(f"{PCI}/{NIC}/remove", "1")
    assert NIC not in server.names(PCI)
    assert "0000:17:01.0" not in server.names(PCI)
    server.write("/sys/bus/pci/rescan", "1")
    assert driver(server, NIC) == "ice"
    assert vfs(server, NIC) == []
    assert host_files(server) == host_files(build(parse_spec("plain"), "node"))


def test_a_group_number_taken_meanwhile_is_not_taken_away() -> None:
    host = build(parse_spec("workstation"), "node")
    shared = host.resolve(f"{PCI}/{GPU}/iommu_group")
    for address in (GPU, AUDIO):
        host.write(f"{PCI}/{address}/remove", "1")
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "1")
    assert host.resolve(f"{PCI}/{VF}/iommu_group") == shared
    host.write("/sys/bus/pci/rescan", "1")
    group = host.resolve(f"{PCI}/{GPU}/iommu_group")
    assert group != shared
    assert sorted(host.names(f"{group}/devices")) == [GPU, AUDIO]


# ---- modules and consoles ----------------------------------------------------


@pytest.mark.parametrize("kind", ["ready", "loadable", "missing"])
def test_vfio_pci_is_there_can_be_loaded_or_neither(kind: Any) -> None:
    host = build(parse_spec("a2"), "node", vfio=kind)
    release = text(host, "/proc/sys/kernel/osrelease")
    index = host.read(f"/lib/modules/{release}/modules.dep").decode()
    assert (kind != "missing") == ("/vfio-pci.ko" in index)
    assert host.exists(f"{DRIVERS}/vfio-pci") == (kind == "ready")
    done = host.call(["modprobe", "vfio_pci"])
    assert (done.status == 0) == (kind != "missing")
    assert ("vfio_pci not found" in done.output) == (kind == "missing")
    for path in (f"{DRIVERS}/vfio-pci/bind", "/dev/vfio/vfio", "/sys/module/vfio_pci"):
        assert host.exists(path) == (kind != "missing")
    assert host.call(["modprobe", "ast"]).status == 0
    assert host.call(["modprobe", "no_such_thing"]).status == 1


def test_a_boot_gpu_is_freed_of_consoles_and_framebuffer(
    host: SimulatedHost, host_files: Snapshot
) -> None:
    before = host_files(host)
    console, other = (f"/sys/class/vtconsole/vtcon{n}/bind" for n in (1, 0))
    bus = "/sys/bus/platform/drivers/efi-framebuffer"
    host.write(console, "0")
    assert (text(host, console), text(host, other)) == ("0", "1")
    host.write(f"{bus}/unbind", "efi-framebuffer.0")
    assert errno_of(host, f"{bus}/unbind", "efi-framebuffer.0") == errno.ENODEV
    assert not host.exists("/sys/class/graphics/fb0")
    assert host.names("/sys/class/vtconsole") == ["vtcon0"]
    host.write(f"{bus}/bind", "efi-framebuffer.0")
    assert errno_of(host, f"{bus}/bind", "efi-framebuffer.0") == errno.EBUSY
    assert text(host, console) == "1"
    assert host_files(host) == before


def test_before_linux_6_a_framebuffer_keeps_the_memory_of_the_boot_gpu(
    host: SimulatedHost,
) -> None:
    host.faults.framebuffer_stays = True
    for address in (GPU, AUDIO):
        give(host, address, "vfio-pci")
    with pytest.raises(OSError, match="busy"):
        host.hold(f"{PCI}/{GPU}")
    host.write("/sys/bus/platform/drivers/efi-framebuffer/unbind", "efi-framebuffer.0")
    host.hold(f"{PCI}/{GPU}").release()


def test_the_ports_of_a_card_have_vfs_independently(server: SimulatedHost) -> None:
    other = f"{NIC[:-1]}1"
    addresses: list[str] = []
    for port in (NIC, other):
        server.write(f"{PCI}/{port}/sriov_numvfs", text(server, f"{PCI}/{port}/sriov_totalvfs"))
        links = [name for name in server.names(f"{PCI}/{port}") if name.startswith("virtfn")]
        addresses += [server.readlink(f"{PCI}/{port}/{name}") for name in links]

    assert len(set(addresses)) == len(addresses) == 256


def test_the_directory_of_interfaces_goes_and_comes_with_the_driver(server: SimulatedHost) -> None:
    """An empty one would say that the interface is in another network namespace."""
    name = driver(server, NIC)
    [interface] = server.names(f"{PCI}/{NIC}/net")

    server.write(f"{DRIVERS}/{name}/unbind", NIC)
    without = server.exists(f"{PCI}/{NIC}/net")
    server.write(f"{DRIVERS}/{name}/bind", NIC)

    assert not without
    assert server.names(f"{PCI}/{NIC}/net") == [interface]
