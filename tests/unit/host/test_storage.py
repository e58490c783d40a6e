"""From what is mounted down to the disks and controllers that hold it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from laneway.host import storage
from laneway.sim.host import SimulatedHost

MakeHost = Callable[..., SimulatedHost]

SATA = "/sys/devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block"
DISKS = """
    P: /devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1
    E: SUBSYSTEM=block
    E: DEVTYPE=disk
    E: MAJOR=259
    E: MINOR=0
    N: nvme0n1

    P: /devices/pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1/nvme0n1p2
    E: SUBSYSTEM=block
    E: DEVTYPE=partition
    E: MAJOR=259
    E: MINOR=2
    N: nvme0n1p2
    A: partition=2\\n

    P: /devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda
    E: SUBSYSTEM=block
    E: DEVTYPE=disk
    E: MAJOR=8
    E: MINOR=0
    N: sda

    P: /devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sdb
    E: SUBSYSTEM=block
    E: DEVTYPE=disk
    E: MAJOR=8
    E: MINOR=16
    N: sdb
"""


def virtual(name: str, number: str, *slaves: str) -> str:
    """A device of device mapper or md."""
    major, _, minor = number.partition(":")
    lines = [
        "",
        f"P: /devices/virtual/block/{name}",
        "E: SUBSYSTEM=block",
        "E: DEVTYPE=disk",
        f"E: MAJOR={major}",
        f"E: MINOR={minor}",
        f"N: {name}",
    ]
    lines += [f"L: slaves/{slave.rpartition('/')[2]}=../../../../{slave}" for slave in slaves]
    return "\n".join([*lines, ""])


def mount(number: str, place: str, kind: str = "ext4", source: str = "/dev/x") -> str:
    return f"27 1 {number} / {place} rw,relatime shared:1 master:2 - {kind} {source} rw\n"


def reasons(host: SimulatedHost) -> dict[str, list[str]]:
    """The last part of each path to its reasons."""
    found: dict[str, list[str]] = {}
    for need in storage.needs(host):
        found.setdefault(need.path.rpartition("/")[2], []).append(need.reason)
    return found


def test_a_partition_leads_to_its_disk(host_of: MakeHost) -> None:
    host = host_of(DISKS, {"/proc/1/mountinfo": mount("259:2", "/")})
    root = ["holds the root file system (nvme0n1p2 on /)"]
    assert reasons(host) == {"nvme0n1p2": root, "nvme0n1": root}


def test_lvm_on_encryption_on_raid_leads_to_every_disk(host_of: MakeHost) -> None:
    disks = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block"
    text = (
        DISKS
        + virtual("md0", "9:0", f"{disks}/sda", f"{disks}/sdb")
        + virtual("dm-0", "253:0", "virtual/block/md0")
        + virtual("dm-1", "253:1", "virtual/block/dm-0")
    )
    host = host_of(text, {"/proc/1/mountinfo": mount("253:1", r"/var/lib/my\040data")})
    expected = ["holds a mounted file system (dm-1 on /var/lib/my data)"]
    assert reasons(host) == dict.fromkeys(("dm-1", "dm-0", "md0", "sda", "sdb"), expected)


def test_a_device_mounted_a_hundred_times_is_reported_by_its_shortest_place(
    host_of: MakeHost,
) -> None:
    binds = "".join(mount("8:0", f"/var/lib/kubelet/pods/{n}/data") for n in range(100))
    host = host_of(DISKS, {"/proc/1/mountinfo": binds + mount("8:0", "/data") + binds})
    assert reasons(host) == {"sda": ["holds a mounted file system (sda on /data)"]}


def test_swap_on_a_partition_counts_and_in_a_file_is_its_file_systems(host_of: MakeHost) -> None:
    swaps = (
        "Filename\tType\tSize\tUsed\tPriority\n"
        "/dev/nvme0n1p2                          partition\t8388604\t0\t-2\n"
        "/swap.img                               file\t8388604\t0\t-3\n"
    )
    swap = ["holds swap space (nvme0n1p2)"]
    assert reasons(host_of(DISKS, {"/proc/swaps": swaps})) == {
        "nvme0n1p2": swap,
        "nvme0n1": swap,
    }


def test_every_member_of_a_btrfs_is_needed(host_of: MakeHost) -> None:
    host = host_of(DISKS, {"/proc/1/mountinfo": mount("0:45", "/", "btrfs", "/dev/sda")})
    for disk in ("sda", "sdb"):
        host.tree.link(f"/sys/fs/btrfs/6a1e/devices/{disk}", f"{SATA}/{disk}")
    root = {disk: [f"holds the root file system ({disk} on /)"] for disk in ("sda", "sdb")}
    assert reasons(host) == root


def test_a_mapper_name_is_followed_to_its_device(host_of: MakeHost) -> None:
    text = DISKS + virtual("dm-0", "253:0")
    host = host_of(text, {"/proc/1/mountinfo": mount("0:50", "/", "btrfs", "/dev/mapper/vg-root")})
    host.tree.link("/dev/mapper/vg-root", "/dev/dm-0")
    assert set(reasons(host)) == {"dm-0"}


def test_multipath_nvme_leads_to_every_controller(host_of: MakeHost) -> None:
    host = host_of(
        """
        P: /devices/virtual/nvme-subsystem/nvme-subsys0
        E: SUBSYSTEM=nvme-subsystem
        L: nvme0=../../../pci0000:00/0000:01:00.0/nvme/nvme0
        L: nvme1=../../../pci0000:00/0000:02:00.0/nvme/nvme1

        P: /devices/virtual/nvme-subsystem/nvme-subsys0/nvme0n1
        E: SUBSYSTEM=block
        E: MAJOR=259
        E: MINOR=0
        """,
        {"/proc/1/mountinfo": mount("259:0", "/")},
    )
    assert set(reasons(host)) == {"nvme0n1", "nvme0", "nvme1"}


@pytest.mark.parametrize(
    "line",
    [
        mount("0:22", "/proc", "proc", "proc"),
        mount("0:30", "/mnt", "nfs4", "server:/export"),
        mount("7:77", "/gone"),
        mount("0:31", "/mnt", "btrfs", "/dev/.."),
        mount("../../..", "/mnt"),
        "27 1 8:0 / /mnt\n",
        "\n",
        "\xff - \xff\n",
    ],
)
def test_what_is_no_block_device_falls_out(host_of: MakeHost, line: str) -> None:
    assert reasons(host_of(DISKS, {"/proc/1/mountinfo": line})) == {}


def test_devices_that_stand_on_each_other_end(host_of: MakeHost) -> None:
    text = (
        DISKS
        + virtual("dm-0", "253:0", "virtual/block/dm-1")
        + virtual("dm-1", "253:1", "virtual/block/dm-0")
    )
    assert set(reasons(host_of(text, {"/proc/1/mountinfo": mount("253:0", "/")}))) == {
        "dm-0",
        "dm-1",
    }


def test_a_host_without_proc_needs_nothing(host_of: MakeHost) -> None:
    assert storage.needs(host_of(DISKS)) == []
