"""A server from the installer to one whose devices can be passed to VMs, and back.

With real firmware, boot loaders, kernel and IOMMU; an administrator's commands, one by one.
"""

from __future__ import annotations

import itertools
import os

import pytest

from support.disk_guests import ROOT, DiskGuest

GPU, SHARED = "0000:08:00.0", "0000:09:00.0"
WORD = "intel_iommu=on"
DRIVER = (
    f"install -D {ROOT}/rig/programs/sriov-manage /usr/lib/nvidia/sriov-manage && "
    f"install {ROOT}/rig/programs/nvidia-smi /usr/bin/ && mkdir -p /run/simgpu"
)
"""Installs what stands for the programs of NVIDIA's driver."""
STEP = int(os.environ.get("LANEWAY_CUTS", "1"))
"""Of so many writes, the power is cut before one."""
GROUPS = "ls /sys/kernel/iommu_groups | wc -l"
SUMS = (
    "find /etc/default /etc/kernel /etc/modules-load.d /etc/modprobe.d /boot -type f "
    "! -name random-seed | sort | xargs sha256sum"
)
"""All that decides what starts."""


def command_line(server: DiskGuest) -> list[str]:
    """Of the running kernel."""
    return server.read("/proc/cmdline").split()


def test_a_server_is_prepared_by_one_reboot_and_taken_back_by_another(server: DiskGuest) -> None:
    installed, sums = command_line(server), server.run(SUMS)
    assert server.run(GROUPS) == "0"

    planned = server.laneway("host", "prepare")
    assert WORD in planned
    assert server.run(SUMS) == sums, "planning writes nothing"

    server.reboot(f"{server.program} host prepare --apply --reboot")

    assert sorted(command_line(server)) == sorted([*installed, WORD])
    assert int(server.run(GROUPS)) > 0
    # vfio-pci is loaded by the host's own systemd, before anyone asks for a device
    server.run("[[ -e /sys/bus/pci/drivers/vfio-pci ]]")
    server.laneway("host", "apply", "passthrough", GPU)
    assert server.run(f"basename $(readlink /sys/bus/pci/devices/{GPU}/driver)") == "vfio-pci"
    server.laneway("host", "release", GPU)
    server.run(DRIVER)
    server.laneway("host", "apply", "gpu", SHARED, "--vgpus", "A2-4Q=1")
    assert server.run("ls /sys/bus/mdev/devices | wc -l") == "1"
    server.laneway("host", "release", SHARED)

    server.reboot(f"{server.program} host prepare --undo --reboot")

    assert command_line(server) == installed
    assert server.run(GROUPS) == "0"
    assert server.run(SUMS) == sums


DAMAGES = {
    "grub": {
        "grub.cfg": "truncate -s 2000 /boot/grub/grub.cfg",
        "vmlinuz": "rm /boot/vmlinuz-*",
        "initrd.img": "rm /boot/initrd.img-*",
    },
    "systemd-boot": {
        "no entry": "rm /boot/efi/loader/entries/*.conf",
        "linux": "rm /boot/efi/*/*/linux",
        "initrd.img": "rm /boot/efi/*/*/initrd*",
    },
}
"""What is done to a server after it was prepared, by what the refusal must name."""


def test_a_damaged_configuration_is_found_before_the_reboot(server: DiskGuest) -> None:
    server.laneway("host", "prepare", "--apply")
    boot = server.read("/proc/sys/kernel/random/boot_id")
    server.run("cp -a /boot /var/whole")

    for named, done in DAMAGES[server.loader].items():
        server.run(done)
        status, said = server.ask(f"{server.program} host prepare --apply --reboot")
        assert status != 0, named
        assert named in said
        server.run("cp -a /var/whole/. /boot/")

    assert server.read("/proc/sys/kernel/random/boot_id") == boot
    server.reboot(f"{server.program} host prepare --apply --reboot")
    assert WORD in command_line(server)


@pytest.mark.timeout(3600)
def test_a_power_cut_at_any_write_leaves_a_server_that_starts(server: DiskGuest) -> None:
    """Each time the next command first puts right what the last one left, and is cut further on."""
    installed = command_line(server)
    written = [*installed, WORD]
    cuts = []

    # A write may come again in the recovery, so the count goes on where the last cut was.
    for number in itertools.count(1, STEP):
        cut = server.cut_short(number, "host", "prepare", "--apply")
        if not cut:
            break
        cuts.append(cut)
        server.start()
        assert sorted(command_line(server)) in (sorted(installed), sorted(written)), cut

    assert cuts
    if STEP == 1:  # a sample may miss either
        assert any("modules-load.d" in cut for cut in cuts), cuts
        assert any("/boot/" in cut for cut in cuts), cuts
    if WORD not in command_line(server):
        server.reboot()
    assert sorted(command_line(server)) == sorted(written)
    assert int(server.run(GROUPS)) > 0
    server.laneway("host", "apply", "passthrough", GPU)
