"""What would lose its GPU with the driver, on simulated servers and small machines."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from laneway.core.driver_toolkit.failure import ToolkitError
from laneway.core.programs import SRIOV_MANAGE
from laneway.host.real import RealHost
from laneway.sim.spec import build, parse_spec
from laneway.toolkit.holding import read_holding

GPU = "/sys/bus/pci/devices/0000:08:00.0"


def files(root: Path, content: Mapping[str, str]) -> RealHost:
    """A machine whose `-> target` are links."""
    for path, value in content.items():
        place = root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            place.mkdir()
        elif value.startswith("-> "):
            os.symlink(value[3:], place)
        else:
            place.write_text(value)
    return RealHost(str(root))


BARE = {"/dev/null": "", "/sys/bus/pci/devices/": "", "/proc/1/comm": "init\n"}


async def test_a_vgpu_counts_though_nothing_uses_it() -> None:
    host = build(parse_spec("a2-vfio"), "node")
    assert read_holding(host) == []
    await host.run([SRIOV_MANAGE, "-e", "0000:08:00.0"], 10)
    assert read_holding(host) == []

    vf = "/sys/bus/pci/devices/0000:08:00.4/nvidia"
    kind = host.read(f"{vf}/creatable_vgpu_types").decode().splitlines()[1].partition(":")[0]
    host.write(f"{vf}/current_vgpu_type", kind.strip())

    (held,) = read_holding(host)
    assert held.startswith("vGPU ")
    assert held.endswith(" exists on 0000:08:00.4")


async def test_a_gpu_whose_vgpus_cannot_be_read_is_not_free() -> None:
    host = build(parse_spec("a2-vfio"), "node")
    await host.run([SRIOV_MANAGE, "-e", "0000:08:00.0"], 10)
    host.faults.unreadable("0000:04:00.0/sriov_totalvfs", errno.EIO)
    assert read_holding(host) == []  # it is a network card's

    host.faults.unreadable("0000:08:00.4/nvidia/current_vgpu_type", errno.EIO)

    with pytest.raises(ToolkitError, match=r"in use: 0000:08:00\.4: nvidia/current_vgpu_type"):
        read_holding(host)


def test_a_process_with_the_driver_open_counts_unless_it_is_our_own(tmp_path: Path) -> None:
    opened = {
        "/dev/nvidiactl": "",
        "/proc/41/comm": "nvidia-vgpu-mgr\n",
        "/proc/41/fd/3": "-> /dev/nvidiactl",
        "/proc/412/comm": "nvidia-smi\n",
        "/proc/412/fd/7": "-> /dev/nvidiactl",
    }
    host = files(tmp_path, BARE | opened)

    assert read_holding(host, {41}) == ["process 412 (nvidia-smi) has /dev/nvidiactl open"]
    assert len(read_holding(host)) == 2


def test_where_processes_cannot_be_seen_nothing_counts_as_free(tmp_path: Path) -> None:
    host = files(tmp_path, BARE | {"/proc/1/ns/pid": "-> pid:[1]", "/proc/1/fd/0": ""})

    with pytest.raises(ToolkitError, match="hostPID: true") as caught:
        read_holding(host)
    assert caught.value.failure.passing


def test_a_node_whose_devices_cannot_be_read_is_not_free(tmp_path: Path) -> None:
    host = files(tmp_path, {"/dev/null": "", "/proc/1/comm": "init\n"})

    with pytest.raises(ToolkitError, match="cannot read whether the driver is in use"):
        read_holding(host)
