"""The first GPU of a guest of the kernel rig, changed as its driver lets a person change it."""

from __future__ import annotations

from laneway.host.port import Host

GPU = "0000:08:00.0"


def switch(host: Host, vfs: int) -> None:
    """Have this many VFs. They go only when the driver leaves the GPU."""
    path = f"/sys/bus/pci/devices/{GPU}/sriov_numvfs"
    now = int(host.read(path))
    if now not in (0, vfs):
        for file in ("unbind", "bind"):
            host.write(f"/sys/bus/pci/drivers/nvidia/{file}", GPU)
    if vfs not in (0, now):
        host.write(path, str(vfs))
