"""Who holds a device of a simulated host is seen, and is waited for as in Linux."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from laneway.sim.host import SimulatedHost
from laneway.sim.processes import Holder
from laneway.sim.spec import build, parse_spec

PCI = "/sys/bus/pci/devices"
PROBE = "/sys/bus/pci/drivers_probe"
GPU, AUDIO = "0000:08:00.0", "0000:08:00.1"
NVME, FIRST, SECOND = "0000:0a:00.0", "0000:0a:00.1", "0000:0a:00.2"
UUID = "6a8f7f4e-9d3e-4f4e-8a52-3f0a4b8f9a01"


@pytest.fixture
def host() -> SimulatedHost:
    """A workstation with two VFs."""
    host = build(parse_spec("workstation"), "node")
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "2")
    return host


def give(host: SimulatedHost, address: str, to: str) -> None:
    host.write(f"{PCI}/{address}/driver_override", to or "\n")
    if host.exists(f"{PCI}/{address}/driver"):
        host.write(f"{PCI}/{address}/driver/unbind", address)
    host.write(PROBE, address)


def group(host: SimulatedHost, address: str) -> str:
    return host.resolve(f"{PCI}/{address}/iommu_group").rpartition("/")[2]


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def waiting(host: SimulatedHost, holder: Holder, *calls: Callable[[], object]) -> Iterator[None]:
    """Calls that wait in the kernel while the body runs, and come back once no process holds it."""
    threads = [threading.Thread(target=call, daemon=True) for call in calls]
    for number, thread in enumerate(threads, 1):
        thread.start()
        until(lambda number=number: len(host.waiting) == number)  # type: ignore[misc]
    yield
    assert all(thread.is_alive() for thread in threads)
    holder.release()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not host.waiting


# ---- who holds ---------------------------------------------------------------


def test_a_vm_is_a_process_with_the_device_open(host: SimulatedHost) -> None:
    give(host, FIRST, "vfio-pci")
    number = group(host, FIRST)
    assert number in host.names("/dev/vfio")
    vm = host.hold(f"{PCI}/{FIRST}")
    home = f"/proc/{vm.pid}"
    assert host.read(f"{home}/comm") == b"qemu-system-x86\n"
    assert host.read(f"{home}/cmdline").split(b"\0")[0].endswith(b"qemu-system-x86")
    links = [host.readlink(f"{home}/fd/{name}") for name in host.names(f"{home}/fd")]
    assert links == ["/dev/vfio/vfio", f"/dev/vfio/{number}", "anon_inode:[vfio-device]"]
    vm.release()
    vm.release()
    assert str(vm.pid) not in host.names("/proc")


def test_any_device_node_can_be_held(host: SimulatedHost) -> None:
    user = host.hold("/dev/nvme1n1", name="a-program-with-a-long-name")
    assert host.readlink(f"/proc/{user.pid}/fd/3") == "/dev/nvme1n1"
    assert host.read(f"/proc/{user.pid}/comm") == b"a-program-with-\n"
    host.write(f"{PCI}/{NVME}/sriov_numvfs", "0")


def test_a_group_node_is_there_while_a_member_is_on_vfio_pci(host: SimulatedHost) -> None:
    number = group(host, GPU)
    for address in (AUDIO, GPU):
        give(host, address, "vfio-pci")
        assert number in host.names("/dev/vfio")
    give(host, AUDIO, "")
    assert number in host.names("/dev/vfio")
    give(host, GPU, "")
    assert number not in host.names("/dev/vfio")
    assert host.names("/sys/class/vfio") == []


def test_a_group_is_viable_while_no_member_has_an_ordinary_driver(host: SimulatedHost) -> None:
    number = group(host, GPU)
    assert not host.viable(number)
    give(host, AUDIO, "vfio-pci")
    assert not host.viable(number)
    with pytest.raises(OSError, match=f"/dev/vfio/{number}") as refusal:
        host.hold(f"{PCI}/{AUDIO}")
    assert refusal.value.errno == errno.EPERM
    host.write(f"{PCI}/{GPU}/driver/unbind", GPU)
    assert host.viable(number)
    vm = host.hold(f"/dev/vfio/{number}")
    # No ordinary driver may join a group that a VM uses.
    with pytest.raises(OSError, match="busy") as refusal:
        host.write("/sys/bus/pci/drivers/nvidia/bind", GPU)
    assert refusal.value.errno == errno.EBUSY
    give(host, GPU, "vfio-pci")
    vm.release()
    for address in (GPU, AUDIO):
        give(host, address, "")
    assert not host.viable(number)


def test_only_what_is_offered_can_be_opened(host: SimulatedHost) -> None:
    for path, expected in (
        (f"{PCI}/{FIRST}", errno.ENODEV),
        (f"/dev/vfio/{group(host, FIRST)}", errno.ENOENT),
        ("/dev/none", errno.ENOENT),
    ):
        with pytest.raises(OSError, match=path) as refusal:
            host.hold(path)
        assert refusal.value.errno == expected


# ---- who waits ---------------------------------------------------------------


def test_unbinding_waits_for_the_vm_and_looks_finished(host: SimulatedHost) -> None:
    give(host, FIRST, "vfio-pci")
    vm = host.hold(f"{PCI}/{FIRST}")
    number = group(host, FIRST)
    with waiting(host, vm, lambda: host.write("/sys/bus/pci/drivers/vfio-pci/unbind", FIRST)):
        assert not host.exists(f"{PCI}/{FIRST}/driver")
        assert number in host.names("/dev/vfio")
        # Everything else goes on.
        give(host, SECOND, "vfio-pci")
        host.hold(f"{PCI}/{SECOND}").release()
        give(host, SECOND, "")
    assert number not in host.names("/dev/vfio")


def test_a_second_writer_waits_for_the_devices_lock(host: SimulatedHost) -> None:
    give(host, FIRST, "vfio-pci")
    host.write(f"{PCI}/{FIRST}/driver_override", "\n")
    vm = host.hold(f"{PCI}/{FIRST}")
    unbind = "/sys/bus/pci/drivers/vfio-pci/unbind"
    with waiting(host, vm, lambda: host.write(unbind, FIRST), lambda: host.write(PROBE, FIRST)):
        assert host.waiting == {unbind, PROBE}
    assert host.resolve(f"{PCI}/{FIRST}/driver").endswith("/nvme")


def test_removing_an_mdev_waits_and_its_room_stays_taken() -> None:
    host = build(parse_spec("a2"), "node")
    types = f"{PCI}/0000:08:00.4/mdev_supported_types/nvidia-746"
    host.write(f"{types}/create", UUID)
    number = host.resolve(f"/sys/bus/mdev/devices/{UUID}/iommu_group").rpartition("/")[2]
    vm = host.hold(f"/dev/vfio/{number}")
    with waiting(host, vm, lambda: host.write(f"/sys/bus/mdev/devices/{UUID}/remove", "1")):
        assert not host.exists(f"/sys/bus/mdev/devices/{UUID}")
        assert host.read(f"{types}/available_instances") == b"0\n"
        assert number in host.names("/dev/vfio")
        with pytest.raises(FileExistsError):
            host.write(f"{types}/create", UUID)
    assert host.read(f"{types}/available_instances") == b"1\n"
    assert number not in host.names("/dev/vfio")


def test_switching_off_with_a_held_vf_holds_up_the_card_and_every_rescan(
    host: SimulatedHost,
) -> None:
    give(host, SECOND, "vfio-pci")
    vm = host.hold(f"{PCI}/{SECOND}")
    switch = f"{PCI}/{NVME}/sriov_numvfs"
    with waiting(
        host,
        vm,
        lambda: host.write(switch, "0"),
        lambda: host.read(host.resolve(switch)),
        lambda: host.write("/sys/bus/pci/rescan", "1"),
        lambda: host.write("/sys/bus/pci/drivers/nvme/unbind", NVME),
    ):
        assert host.read(f"{PCI}/{NVME}/sriov_totalvfs") == b"4\n"
        assert [n for n in host.names(f"{PCI}/{NVME}") if n.startswith("virtfn")] == []
        assert FIRST not in host.names(PCI)
        assert SECOND in host.names(PCI)
    assert SECOND not in host.names(PCI)
    assert host.read(switch) == b"0\n"


def test_vfs_that_come_slowly_are_seen_half_way(host: SimulatedHost) -> None:
    switch = f"{PCI}/{NVME}/sriov_numvfs"
    host.write(switch, "0")
    host.faults.probe_seconds = 0.05
    writer = threading.Thread(target=lambda: host.write(switch, "4"))
    writer.start()
    until(lambda: host.exists(f"{PCI}/{NVME}/virtfn0"))
    assert not host.exists(f"{PCI}/{NVME}/virtfn3")
    assert host.read(switch) == b"4\n"  # waits until all are there
    assert host.exists(f"{PCI}/{NVME}/virtfn3")
    writer.join()
