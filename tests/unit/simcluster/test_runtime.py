"""What runs on a simulated node, across the ends of those who manage it."""

from __future__ import annotations

from pathlib import Path

import pytest

from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from laneway.simcluster.runtime import Runtime, RuntimeStateError

NIC = "/sys/bus/pci/devices/0000:17:00.0"
OTHER = "/sys/bus/pci/devices/0000:17:00.1"
ENVIRONMENT = {"compute": {"PCI_RESOURCE_X": "0000:17:00.0"}}


@pytest.fixture
def host() -> SimulatedHost:
    """One function is on vfio-pci, the other is not."""
    host = build(parse_spec("plain"), "node1")
    host.call(["modprobe", "vfio-pci"])
    host.write(f"{NIC}/driver/unbind", "0000:17:00.0")
    host.write(f"{NIC}/driver_override", "vfio-pci")
    host.write("/sys/bus/pci/drivers/vfio-pci/bind", "0000:17:00.0")
    return host


def qemus(host: SimulatedHost) -> int:
    """Processes that have something open."""
    return sum(
        host.read(f"/proc/{name}/comm") == b"qemu-system-x86\n"
        for name in host.names("/proc")
        if name.isdigit() and host.exists(f"/proc/{name}/comm")
    )


def test_devices_are_open_again_after_a_restart(host: SimulatedHost, tmp_path: Path) -> None:
    path = str(tmp_path / "deep" / "containers.json")
    first = Runtime(host, path)
    first.start("u1", ENVIRONMENT)
    first.open("u1", [NIC])
    assert qemus(host) == 1

    other = build(parse_spec("plain"), "node1")  # the same host in another process
    other.call(["modprobe", "vfio-pci"])
    other.write(f"{NIC}/driver/unbind", "0000:17:00.0")
    other.write(f"{NIC}/driver_override", "vfio-pci")
    other.write("/sys/bus/pci/drivers/vfio-pci/bind", "0000:17:00.0")
    second = Runtime(other, path)
    assert qemus(other) == 1
    workload = second.get("u1")
    assert workload is not None
    assert (workload.environment, workload.opened) == (ENVIRONMENT, [NIC])

    second.end("u1")
    assert qemus(other) == 0
    assert Runtime(other, path).uids == []


def test_a_process_whose_device_went_meanwhile_has_ended(
    tmp_path: Path, host: SimulatedHost
) -> None:
    path = str(tmp_path / "containers.json")
    first = Runtime(host, path)
    first.start("u1", ENVIRONMENT)
    first.open("u1", [NIC])
    second = Runtime(build(parse_spec("plain"), "node1"), path)
    workload = second.get("u1")
    assert workload is not None
    assert (workload.exit_code, workload.opened) == (1, ())


def test_all_devices_are_opened_or_none(host: SimulatedHost, tmp_path: Path) -> None:
    runtime = Runtime(host, str(tmp_path / "containers.json"))
    runtime.start("u1", ENVIRONMENT)
    with pytest.raises(OSError, match="No such device"):
        runtime.open("u1", [NIC, OTHER])
    assert qemus(host) == 0
    workload = runtime.get("u1")
    assert workload is not None
    assert workload.opened == ()


def test_a_process_that_ends_closes_its_devices_and_is_reported(
    host: SimulatedHost, tmp_path: Path
) -> None:
    runtime = Runtime(host, str(tmp_path / "containers.json"))
    reported: list[str] = []
    runtime.subscribe(reported.append)
    runtime.start("u1", ENVIRONMENT)
    runtime.open("u1", [NIC])
    runtime.exit("u1", 3)
    assert (qemus(host), reported) == (0, ["u1"])
    workload = runtime.get("u1")
    assert workload is not None
    assert workload.exit_code == 3


@pytest.mark.parametrize("content", [b"", b"[]", b'{"u": 3}', b"\xff"])
def test_a_damaged_file_is_named(host: SimulatedHost, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "containers.json"
    path.write_bytes(content)
    with pytest.raises(RuntimeStateError, match=r"containers\.json is damaged"):
        Runtime(host, str(path))
