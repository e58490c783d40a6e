"""Users of a device, on small machines: files below a directory."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.core.workload import Workload
from laneway.host.holders import read_holders, usb_holders, visibility_error
from laneway.host.port import Host
from laneway.host.real import RealHost
from laneway.sim.spec import build, parse_spec

Files = Callable[[Mapping[str, str]], str]
Address = Callable[[str], PciAddress]

BUS = "/sys/devices/pci0000:00"
GPU = f"{BUS}/0000:08:00.0"
DISK = f"{BUS}/0000:03:00.0"
NIC = f"{BUS}/0000:04:00.0"


def on_bus(*paths: str) -> dict[str, str]:
    """The links by which the PCI bus names its functions, each with a group of its own number."""
    links = {}
    for path in paths:
        name = path.rpartition("/")[2]
        links[f"/sys/bus/pci/devices/{name}"] = f"-> ../../../devices/pci0000:00/{name}"
        links[f"{path}/iommu_group"] = f"-> ../../../kernel/iommu_groups/{int(name[5:7])}"
        links[f"{path}/driver"] = "-> ../../../bus/pci/drivers/some"
    return links


def node(path: str, name: str) -> dict[str, str]:
    """A device of the kernel's that has a node in /dev."""
    return {f"{path}/uevent": f"MAJOR=9\nDEVNAME={name}\n", f"{path}/dev": "9:1\n"}


def process(pid: int, name: str, *opened: str) -> dict[str, str]:
    place = f"/proc/{pid}"
    descriptors = {f"{place}/fd/{number}": f"-> {path}" for number, path in enumerate(opened)}
    return {f"{place}/comm": f"{name}\n", **descriptors}


def reported(host: Host, address: PciAddress) -> list[str]:
    return [holder.text for holder in read_holders(host, [address]).get(address, ())]


def test_a_virtual_machine_holds_the_group_of_its_device(files: Files, address: Address) -> None:
    host = RealHost(
        files(
            {
                **on_bus(GPU, DISK),
                **process(4711, "qemu-system-x86", "/dev/vfio/vfio", "/dev/vfio/8", "/dev/null"),
                **process(4712, "sh", "/dev/null", "/dev/vfio/88"),
            }
        )
    )
    found = read_holders(host, [address("08:00.0"), address("03:00.0"), address("09:00.0")])
    assert {one: [holder.text for holder in holders] for one, holders in found.items()} == {
        address("08:00.0"): ["process 4711 (qemu-system-x86) has /dev/vfio/8 open"]
    }


POD = "0b9a7c3e-1d2f-4a5b-8c6d-7e8f90a1b2c3"
SCOPE = f"kubepods-pod{POD.replace('-', '_')}.slice/cri-containerd-{'a' * 64}.scope"


@pytest.mark.parametrize(
    ("cgroup", "workload", "expected"),
    [
        (
            f"0::/kubepods.slice/{SCOPE}",
            Workload("desks", "virt-launcher-ann-x7", "ann"),
            (
                "VM desks/ann (pod desks/virt-launcher-ann-x7, process 9 qemu-kvm)",
                "kubectl edit vm ann -n desks",
            ),
        ),
        (
            f"0::/kubepods.slice/{SCOPE}",
            Workload("ml", "train"),
            ("pod ml/train (process 9 qemu-kvm)", "kubectl delete pod train -n ml"),
        ),
        (f"0::/kubepods.slice/{SCOPE}", None, ("process 9 (qemu-kvm)", "kill 9")),
        (
            "0::/system.slice/vm.service",
            Workload("desks", "x", "x"),
            ("process 9 (qemu-kvm)", "kill 9"),
        ),
    ],
)
def test_the_machine_is_named_before_its_process(
    files: Files,
    address: Address,
    cgroup: str,
    workload: Workload | None,
    expected: tuple[str, str],
) -> None:
    tree = {**on_bus(GPU), **process(9, "qemu-kvm", "/dev/vfio/8"), "/proc/9/cgroup": cgroup}
    known = {POD: workload}
    (held,) = read_holders(RealHost(files(tree)), [address("08:00.0")], known.get).values()
    words, command = expected
    assert [one.text for one in held] == [f"{words} has /dev/vfio/8 open"]
    assert held[0].pid == 9
    assert held[0].end.endswith(f": {command}")


@pytest.mark.parametrize(
    "opened",
    [
        "/dev/dri/card1",
        "/dev/dri/card1 (deleted)",
        "/host/dev/dri/card1",
        "/dev/vfio/devices/vfio3",
        "/dev/nvidia5",
    ],
)
def test_every_node_of_a_device_counts(files: Files, address: Address, opened: str) -> None:
    host = RealHost(
        files(
            {
                **on_bus(GPU),
                **node(f"{GPU}/drm/card1", "dri/card1"),
                **node(f"{GPU}/vfio-dev/vfio3", "vfio/devices/vfio3"),
                "/proc/driver/nvidia/gpus/0000:08:00.0/information": (
                    "Model: \t\t NVIDIA A2\nDevice Minor: \t 5\n"
                ),
                **process(7, "user", opened),
            }
        )
    )
    name = opened.removesuffix(" (deleted)").removeprefix("/host")
    assert reported(host, address("08:00.0")) == [f"process 7 (user) has {name} open"]


def test_the_uevent_of_a_function_is_not_read(files: Files, address: Address) -> None:
    # Reading it waits while the function is being taken away from a virtual machine.
    class Waiting(RealHost):
        def read(self, path: str) -> bytes:
            assert not path.endswith("0000:08:00.0/uevent")
            return super().read(path)

    host = Waiting(files({**on_bus(GPU), f"{GPU}/uevent": "", **process(7, "vm", "/dev/vfio/8")}))
    assert reported(host, address("08:00.0")) == ["process 7 (vm) has /dev/vfio/8 open"]


def test_a_process_with_everything_open_is_one_user(files: Files, address: Address) -> None:
    nodes: dict[str, str] = {}
    for n in range(5):
        nodes |= node(f"{GPU}/sound/card0/pcm{n}", f"snd/pcm{n}")
    opened = [f"/dev/snd/pcm{n}" for n in range(5)]
    host = RealHost(files({**on_bus(GPU), **nodes, **process(7, "pipewire", *opened)}))
    assert reported(host, address("08:00.0")) == [
        "process 7 (pipewire) has /dev/snd/pcm0, /dev/snd/pcm1, /dev/snd/pcm2 and 2 more open"
    ]


def test_what_another_function_carries_is_not_counted(files: Files, address: Address) -> None:
    port = f"{BUS}/0000:01:00.0"
    below = node(f"{port}/0000:02:00.0/drm/card0", "dri/card0")
    host = RealHost(files({**on_bus(port), **below, **process(7, "x", "/dev/dri/card0")}))
    assert reported(host, address("01:00.0")) == []


def test_a_vgpu_is_held_through_a_group_of_its_own(files: Files, address: Address) -> None:
    uuid = "83bd2f6a-0d63-5c2b-9d0e-1a2b3c4d5e6f"
    host = RealHost(
        files(
            {
                **on_bus(GPU),
                f"{GPU}/{uuid}/iommu_group": "-> ../../../../kernel/iommu_groups/77",
                f"/sys/bus/mdev/devices/{uuid}": f"-> ../../../devices/{GPU[13:]}/{uuid}",
                **process(9, "qemu-kvm", "/dev/vfio/77"),
            }
        )
    )
    assert reported(host, address("08:00.0")) == ["process 9 (qemu-kvm) has /dev/vfio/77 open"]


DISK_FILES = {
    **on_bus(DISK),
    **node(f"{DISK}/nvme/nvme0", "nvme0"),
    **node(f"{DISK}/nvme/nvme0/nvme0n1", "nvme0n1"),
    f"{DISK}/nvme/nvme0/nvme0n1/holders/.keep": "",
    f"{DISK}/nvme/nvme0/nvme0n1/nvme0n1p1/partition": "1",
    **node(f"{DISK}/nvme/nvme0/nvme0n1/nvme0n1p1", "nvme0n1p1"),
    "/sys/dev/block/259:1": "-> ../../devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p1",
    "/sys/class/block/nvme0n1p1": (
        "-> ../../devices/pci0000:00/0000:03:00.0/nvme/nvme0/nvme0n1/nvme0n1p1"
    ),
}


def test_file_systems_and_swap_hold_their_disk(files: Files, address: Address) -> None:
    host = RealHost(
        files(
            {
                **DISK_FILES,
                "/proc/1/mountinfo": "30 1 259:1 / /data rw - ext4 /dev/nvme0n1p1 rw\n",
                "/proc/1/swaps": "Filename Type Size\n/dev/nvme0n1p1 partition 100 0 -2\n",
            }
        )
    )
    found = read_holders(host, [address("03:00.0")])[address("03:00.0")]
    assert [(holder.kind, holder.text) for holder in found] == [
        ("mount", "it holds a mounted file system (nvme0n1p1 on /data)"),
        ("swap", "it holds swap space (nvme0n1p1)"),
    ]


def test_volumes_on_a_disk_hold_it_and_are_held_themselves(files: Files, address: Address) -> None:
    part = f"{DISK}/nvme/nvme0/nvme0n1/nvme0n1p1"
    md, dm = "/sys/devices/virtual/block/md0", "/sys/devices/virtual/block/dm-2"
    host = RealHost(
        files(
            {
                **DISK_FILES,
                f"{part}/holders/md0": "-> ../../../../../../../virtual/block/md0",
                f"{md}/uevent": "DEVNAME=md0\n",
                f"{md}/holders/dm-2": "-> ../../dm-2",
                f"{dm}/uevent": "DEVNAME=dm-2\n",
                f"{dm}/dm/name": "vg-images\n",
                **process(8, "qemu-kvm", "/dev/dm-2"),
            }
        )
    )
    assert reported(host, address("03:00.0")) == [
        "process 8 (qemu-kvm) has /dev/dm-2 open",
        "its nvme0n1p1 is part of md0",
        "its nvme0n1p1 is part of dm-2 (vg-images)",
    ]


def test_a_namespace_that_two_controllers_carry_is_found_from_each(
    files: Files, address: Address
) -> None:
    other = f"{BUS}/0000:05:00.0"
    subsystem = "/sys/class/nvme-subsystem/nvme-subsys0"
    host = RealHost(
        files(
            {
                **on_bus(DISK, other),
                **node(f"{DISK}/nvme/nvme0", "nvme0"),
                f"{other}/nvme/nvme1/uevent": "DEVNAME=nvme1\n",
                f"{subsystem}/nvme0": "-> anywhere",
                f"{subsystem}/nvme1": "-> anywhere",
                f"{subsystem}/nvme0n1/uevent": "DEVNAME=nvme0n1\n",
                **process(8, "ceph-osd", "/dev/nvme0n1"),
            }
        )
    )
    for function in ("03:00.0", "05:00.0"):
        assert reported(host, address(function)) == ["process 8 (ceph-osd) has /dev/nvme0n1 open"]


def network(**content: str) -> dict[str, str]:
    return {**on_bus(NIC), f"{NIC}/net/eth0/address": "02:00:00:00:00:01\n"} | {
        f"/proc/1/net/{name}": text for name, text in content.items()
    }


ROUTE_TITLE = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, []),
        ({"route": f"{ROUTE_TITLE}eth0\t0000A8C0\t0\t1\t0\t0\t0\t00FFFFFF\n"}, ["has IPv4 routes"]),
        ({"route": f"{ROUTE_TITLE}eth01\t0000A8C0\t0\t1\t0\t0\t0\t00FFFFFF\n"}, []),
        ({"if_inet6": "fd000000000000000000000000000001 02 40 00 80 eth0\n"},
         ["has the address fd00::1"]),
        ({"if_inet6": "fe800000000000000000000000000001 02 40 20 80 eth0\n"}, []),
    ],
)  # fmt: skip
def test_an_interface_is_used_by_what_is_configured_on_it(
    files: Files, address: Address, content: dict[str, str], words: list[str]
) -> None:
    host = RealHost(files(network(**content)))
    assert reported(host, address("04:00.0")) == [f"its interface eth0 {word}" for word in words]


def test_an_interface_is_used_by_what_is_built_on_it(files: Files, address: Address) -> None:
    links = {f"{NIC}/net/eth0/upper_bond0": "-> ../../../../virtual/net/bond0"}
    host = RealHost(files({**network(), **links}))
    assert reported(host, address("04:00.0")) == ["its interface eth0 is part of bond0"]


def test_the_kernels_own_answer_about_addresses_counts() -> None:
    host = build(parse_spec("plain"), "node")
    card = PciAddress.parse("0000:17:00.0")
    host.network(lambda net: net.give("ens1f0", "fe80::1/64"))
    assert reported(host, card) == []
    host.network(lambda net: net.give("ens1f0", "198.51.100.7/32"))  # which no route tells of
    assert reported(host, card) == ["its interface ens1f0 has the address 198.51.100.7/32"]


def test_an_interface_that_was_given_to_a_container_is_used(
    files: Files, address: Address, tmp_path: Path
) -> None:
    host = RealHost(files(on_bus(NIC)))
    (tmp_path / f"{NIC}/net".lstrip("/")).mkdir()
    assert reported(host, address("04:00.0")) == [
        "its network interface is in another network namespace"
    ]


def test_a_usb_device_is_held_by_its_node_and_by_what_it_carries(files: Files) -> None:
    home = f"{BUS}/0000:00:14.0/usb3/3-1"
    host = RealHost(
        files(
            {
                "/sys/bus/usb/devices/3-1": "-> ../../../devices/pci0000:00/0000:00:14.0/usb3/3-1",
                **node(home, "bus/usb/003/002"),
                **node(f"{home}/3-1:1.0/tty/ttyACM0", "ttyACM0"),
                **process(5, "qemu-kvm", "/dev/bus/usb/003/002"),
                **process(6, "minicom", "/dev/ttyACM0"),
            }
        )
    )
    found = usb_holders(host, ["3-1", "3-2", "../../pci"])
    assert {port: [holder.text for holder in users] for port, users in found.items()} == {
        "3-1": [
            "process 5 (qemu-kvm) has /dev/bus/usb/003/002 open",
            "process 6 (minicom) has /dev/ttyACM0 open",
        ]
    }


class Vanishing(RealHost):
    """Process 7 ends while it is looked at; process 8 cannot be looked into."""

    def readlink(self, path: str) -> str:
        if path.startswith("/proc/7/fd/"):
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return super().readlink(path)

    def names(self, path: str) -> list[str]:
        if path == "/proc/8/fd":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().names(path)


def test_processes_come_and_go_during_the_look(files: Files, address: Address) -> None:
    content = {
        **on_bus(GPU),
        **process(7, "gone", "/dev/vfio/8"),
        **process(8, "closed", "/dev/vfio/8"),
        **process(9, "qemu-kvm", "/dev/vfio/8"),
    }
    del content["/proc/9/comm"]
    host = Vanishing(files(content))
    assert reported(host, address("08:00.0")) == [
        "process 9 (ended meanwhile) has /dev/vfio/8 open"
    ]


def test_all_processes_are_seen_from_the_first_namespace(files: Files) -> None:
    seen = {"/proc/1/fd/0": "-> /dev/null", "/proc/1/ns/pid": "-> pid:[4026531836]"}
    assert visibility_error(RealHost(files(seen))) == ""


def test_a_machine_without_processes_hides_none(files: Files) -> None:
    assert visibility_error(RealHost(files({}))) == ""


def test_a_container_sees_only_its_own_processes_and_says_so(files: Files) -> None:
    seen = {"/proc/1/fd/0": "-> /dev/null", "/proc/1/ns/pid": "-> pid:[4026532001]"}
    assert "hostPID: true" in visibility_error(RealHost(files(seen)))


class Forbidding(RealHost):
    def names(self, path: str) -> list[str]:
        if path == "/proc/1/fd":
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return super().names(path)


def test_without_root_users_stay_hidden_and_this_is_said(files: Files) -> None:
    assert "root is needed" in visibility_error(Forbidding(files({})))
