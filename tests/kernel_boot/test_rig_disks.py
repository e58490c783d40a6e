"""The rig itself: what an administrator does by hand to a server has its effect at the next start.

Without Laneway. What the other tests of this folder tell of Laneway is only as good as this.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from support.disk_guests import DiskGuest, DoesNotStartError

GROUPS = "ls /sys/kernel/iommu_groups | wc -l"
GPU = "0000:08:00.0"

BY_HAND = {
    "grub": """
        mkdir -p /etc/default/grub.d
        cd /etc/default/grub.d
        echo 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX intel_iommu=on"' >iommu.cfg
        update-grub
        grub-script-check /boot/grub/grub.cfg
    """,
    "systemd-boot": """
        sed -i 's/$/ intel_iommu=on/' /etc/kernel/cmdline
        kernel-install add "$(uname -r)" "/boot/vmlinuz-$(uname -r)"
        bootctl list | grep -q 'options:.*intel_iommu=on'
    """,
}
"""What the distribution's documentation tells an administrator to do."""


def test_a_parameter_written_by_hand_makes_groups_at_the_next_start(server: DiskGuest) -> None:
    assert "iommu" not in server.read("/proc/cmdline")
    assert server.run(GROUPS) == "0"

    server.run(f"set -e\n{BY_HAND[server.loader]}")
    assert server.run(GROUPS) == "0", "a running kernel takes no parameters"
    server.reboot()

    assert "intel_iommu=on" in server.read("/proc/cmdline").split()
    assert int(server.run(GROUPS)) > 0
    server.run(
        "set -e; modprobe vfio-pci\n"
        f"cd /sys/bus/pci/devices/{GPU}; echo vfio-pci >driver_override\n"
        f"[[ ! -e driver ]] || echo {GPU} >driver/unbind\n"
        f"echo {GPU} >/sys/bus/pci/drivers_probe"
    )
    driver = server.run(f"basename $(readlink /sys/bus/pci/devices/{GPU}/driver)")
    assert driver == "vfio-pci"
    assert server.run(
        f"ls /dev/vfio/$(basename $(readlink /sys/bus/pci/devices/{GPU}/iommu_group))"
    )


def test_a_power_cut_loses_what_was_not_written_out_and_nothing_else(
    servers: Callable[[str], DiskGuest],
) -> None:
    server = servers("grub")
    server.run("echo kept >/var/kept; sync")
    server.run("echo lost >/var/lost")

    server.cut_power()
    server.start()

    assert server.read("/var/kept") == "kept"
    assert server.ask("cat /var/lost").said != "lost"


@pytest.mark.parametrize("loader", ["grub", "systemd-boot"])
def test_a_server_without_its_initramfs_does_not_start(
    loader: str, servers: Callable[[str], DiskGuest]
) -> None:
    server = servers(loader)
    server.run("rm $(find /boot -name 'initrd*'); sync")
    server.begin("systemctl reboot")
    server.wait_off()

    with pytest.raises(DoesNotStartError):
        server.start()
