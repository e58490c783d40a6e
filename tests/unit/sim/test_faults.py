"""Writes to a simulated host are refused, lost and left behind on demand; processes die in them."""

from __future__ import annotations

import asyncio
import errno
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laneway.core.programs import SRIOV_MANAGE
from laneway.sim.faults import Killed, When
from laneway.sim.host import SimulatedHost
from laneway.sim.persistence import HostLogError, open_simulated
from laneway.sim.spec import Spec, build
from support.examples import many

PCI = "/sys/bus/pci/devices"
NVME = "0000:0a:00.0"
SWITCH = f"{PCI}/{NVME}/sriov_numvfs"
OVERRIDE = f"{PCI}/{NVME}/driver_override"
WORKSTATION = Spec(model="workstation")
USB = "/dev/bus/usb/001/004"
Snapshot = Callable[[SimulatedHost], dict[str, str | bytes]]


@pytest.fixture
def host() -> SimulatedHost:
    return build(WORKSTATION, "node")


def text(host: SimulatedHost, path: str) -> str:
    return host.read(path).decode().strip()


# ---- errors ------------------------------------------------------------------


def test_the_nth_change_is_refused_before_any_effect(host: SimulatedHost) -> None:
    host.faults.fail_write(2, errno.EIO)
    host.write(OVERRIDE, "x")
    with pytest.raises(OSError, match=SWITCH) as error:
        host.write(SWITCH, "2")
    assert error.value.errno == errno.EIO
    assert text(host, SWITCH) == "0"
    host.write(SWITCH, "2")
    assert text(host, SWITCH) == "2"


def test_a_change_can_have_its_effect_and_report_an_error(host: SimulatedHost) -> None:
    host.faults.fail_after(1, errno.EIO)
    with pytest.raises(OSError, match=SWITCH):
        host.write(SWITCH, "2")
    assert text(host, SWITCH) == "2"


def test_writes_to_one_file_are_refused_as_often_as_said(host: SimulatedHost) -> None:
    host.faults.refuse("/reset", errno.ENOTTY, times=2)
    host.write(OVERRIDE, "x")
    for expected in (errno.ENOTTY, errno.ENOTTY):
        with pytest.raises(OSError, match="reset") as error:
            host.write(f"{PCI}/{NVME}/reset", "1")
        assert error.value.errno == expected
    host.write(f"{PCI}/{NVME}/reset", "1")


async def test_a_command_ends_as_said_without_effect() -> None:
    host = build(Spec(model="a2"), "node")
    host.faults.fail_command(SRIOV_MANAGE, 1, "Cannot obtain unbindLock", times=2)
    off = [SRIOV_MANAGE, "-d", "0000:08:00.0"]
    for _ in range(2):
        assert await host.run(off, 10) == (1, "Cannot obtain unbindLock")
    assert text(host, f"{PCI}/0000:08:00.0/sriov_numvfs") == "16"
    assert (await host.run(off, 10)).status == 0
    assert text(host, f"{PCI}/0000:08:00.0/sriov_numvfs") == "0"


async def test_a_program_that_is_not_there_is_missing(host: SimulatedHost) -> None:
    assert await host.has("modprobe")
    assert not await host.has("no-such-program")
    with pytest.raises(FileNotFoundError):
        await host.run(["no-such-program"], 10)


def test_without_faults_everything_goes_on(host: SimulatedHost) -> None:
    host.faults.fail_write(1, errno.EIO)
    host.faults.refuse(SWITCH, errno.EIO)
    host.faults.fail_probe()
    host.faults.fail_command("modprobe", 1, "")
    host.faults.clear()
    host.write(SWITCH, "1")
    assert host.exists(f"{PCI}/0000:0a:00.1/driver")
    assert host.call(["modprobe", "vfio-pci"]).status == 0


# ---- writes that are left behind ---------------------------------------------


async def test_a_write_that_blocks_is_left_behind_and_finished_later(host: SimulatedHost) -> None:
    host.faults.block(SWITCH)
    with pytest.raises(OSError, match="sriov_numvfs") as error:
        await host.write_within(SWITCH, "2", 0.05)
    assert error.value.errno == errno.ETIMEDOUT
    assert SWITCH in host.waiting
    assert text(host, SWITCH) == "0"
    await host.write_within(OVERRIDE, "x", 10)
    async with host.uevents() as events:
        host.faults.unblock(SWITCH)
        async with asyncio.timeout(30):
            while (event := await anext(events)).devpath.rpartition("/")[2] != NVME:
                pass
        assert event.action == "change"
    assert text(host, SWITCH) == "2"


async def test_a_write_within_its_time_ends_as_any_other(host: SimulatedHost) -> None:
    await host.write_within(SWITCH, "2", 10)
    assert text(host, SWITCH) == "2"
    with pytest.raises(OSError, match="sriov_numvfs") as error:
        await host.write_within(SWITCH, "3", 10)
    assert error.value.errno == errno.EBUSY


async def test_a_command_that_waits_for_a_vm_takes_too_long() -> None:
    host = build(Spec(model="a2"), "node")
    vf = "0000:08:00.4"
    host.write(f"{PCI}/{vf}/driver_override", "vfio-pci")
    host.write(f"{PCI}/{vf}/driver/unbind", vf)
    host.write("/sys/bus/pci/drivers_probe", vf)
    vm = host.hold(f"{PCI}/{vf}")
    with pytest.raises(TimeoutError):
        await host.run([SRIOV_MANAGE, "-d", "0000:08:00.0"], 0.05)
    assert not host.exists(f"{PCI}/{vf}/driver")
    vm.release()


# ---- processes that are killed -----------------------------------------------


@pytest.mark.parametrize(("when", "count"), [("before", "0"), ("during", "2"), ("after", "2")])
async def test_a_killed_process_makes_no_call_until_another_starts(
    host: SimulatedHost, when: When, count: str
) -> None:
    host.faults.kill_at(2, when)
    host.write(OVERRIDE, "x")
    with pytest.raises(Killed):
        await host.write_within(SWITCH, "2", 10)
    for call in (
        lambda: host.read(SWITCH),
        lambda: host.write(OVERRIDE, "y"),
        lambda: host.exists(SWITCH),
        lambda: host.set_owner(USB, 1, 1),
        lambda: host.call(["modprobe", "vfio-pci"]),
    ):
        with pytest.raises(Killed):
            call()
    with pytest.raises(Killed):
        await host.run(["modprobe", "vfio-pci"], 10)
    host.restart()
    assert text(host, SWITCH) == count
    assert text(host, OVERRIDE) == "x"


def test_the_kernel_may_finish_a_dead_process_write_only_when_the_next_one_writes(
    host: SimulatedHost,
) -> None:
    host.faults.kill_at(1, "during")
    with pytest.raises(Killed):
        host.write(SWITCH, "2")
    host.restart(finish=False)
    assert text(host, SWITCH) == "0"
    with pytest.raises(OSError, match="busy"):
        host.write(SWITCH, "3")
    assert text(host, SWITCH) == "2"


def test_a_restart_does_not_wait_for_what_waits_for_a_vm(host: SimulatedHost) -> None:
    host.write(SWITCH, "1")
    vf = "0000:0a:00.1"
    host.write(f"{PCI}/{vf}/driver_override", "vfio-pci")
    host.write(f"{PCI}/{vf}/driver/unbind", vf)
    host.write("/sys/bus/pci/drivers_probe", vf)
    vm = host.hold(f"{PCI}/{vf}")
    host.faults.kill_at(1, "during")
    with pytest.raises(Killed):
        host.write(f"{PCI}/{vf}/driver/unbind", vf)
    host.restart()
    assert not host.exists(f"{PCI}/{vf}/driver")
    vm.release()


def test_every_change_counts_once(host: SimulatedHost) -> None:
    before = host.faults.count
    host.write(OVERRIDE, "x")
    host.write(OVERRIDE, "")  # never reaches the kernel
    host.set_owner(USB, 107, 107)
    host.call(["modprobe", "vfio-pci"])
    with pytest.raises(OSError, match="none"):
        host.write("/sys/none", "1")
    host.read(OVERRIDE)
    assert host.faults.count - before == 3


# ---- owners ------------------------------------------------------------------


def test_a_device_node_is_given_away_until_its_device_goes(host: SimulatedHost) -> None:
    assert host.owner(USB) == (0, 0)
    host.set_owner(USB, 107, 108)
    assert host.owner(USB) == (107, 108)
    host.plug(host.unplug("/sys/bus/usb/devices/1-3"))
    assert host.owner(USB) == (0, 0)


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/dev/none", errno.ENOENT), (OVERRIDE, errno.EPERM), ("/dev/none/x", errno.ENOENT)],
)
def test_only_device_nodes_are_given_away(host: SimulatedHost, path: str, expected: int) -> None:
    with pytest.raises(OSError, match=r"\[Errno") as error:
        host.set_owner(path, 1, 1)
    assert error.value.errno == expected


# ---- a host that is kept -----------------------------------------------------

_ACT = st.one_of(
    st.tuples(st.just(SWITCH), st.sampled_from(["0", "1", "2", "4", "9", "x"])),
    st.tuples(
        st.sampled_from([OVERRIDE, f"{PCI}/0000:0a:00.1/driver_override"]),
        st.sampled_from(["vfio-pci", "none", "\n"]),
    ),
    st.tuples(
        st.sampled_from(
            [
                "/sys/bus/pci/drivers_probe",
                "/sys/bus/pci/drivers/nvme/unbind",
                "/sys/bus/pci/drivers/nvme/bind",
                "/sys/bus/pci/drivers/vfio-pci/unbind",
                f"{PCI}/{NVME}/remove",
                "/sys/bus/pci/rescan",
                "/sys/bus/platform/drivers/efi-framebuffer/unbind",
            ]
        ),
        st.sampled_from([NVME, "0000:0a:00.1", "1", "efi-framebuffer.0"]),
    ),
    st.tuples(st.just("owner"), st.sampled_from([USB, "/dev/none"])),
    st.tuples(st.just("run"), st.sampled_from(["vfio-pci", "none"])),
)


@settings(max_examples=many(30), deadline=None)
@given(acts=st.lists(_ACT, max_size=12))
def test_replay_gives_the_identical_host(host_files: Snapshot, acts: list[tuple[str, str]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = f"{directory}/log"
        host = open_simulated(WORKSTATION, "node", log)
        for path, data in acts:
            try:
                if path == "owner":
                    host.set_owner(data, 107, 107)
                elif path == "run":
                    host.call(["modprobe", data])
                else:
                    host.write(path, data)
            except OSError:
                pass
        again = open_simulated(WORKSTATION, "node", log)
        assert host_files(again) == host_files(host)
        assert again.owner(USB) == host.owner(USB)


def test_a_command_that_now_ends_otherwise_is_another_host(tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = open_simulated(WORKSTATION, "node", str(log))
    host.call(["modprobe", "vfio-pci"])
    host.set_owner(USB, 107, 107)
    whole = log.read_bytes()
    log.write_bytes(whole.replace(b"vfio-pci", b"vfio-pcj"))
    with pytest.raises(HostLogError, match="running modprobe vfio-pcj now ends in status 1"):
        open_simulated(WORKSTATION, "node", str(log))
    log.write_bytes(whole.replace(b"/001/004", b"/001/099"))
    with pytest.raises(HostLogError, match=r"owner of .*/099 now ends in ENOENT instead of"):
        open_simulated(WORKSTATION, "node", str(log))


def test_what_a_killed_process_left_is_kept(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    for when, expected in (("before", "0"), ("during", "1"), ("after", "1")):
        host = open_simulated(WORKSTATION, "node", log)
        if text(host, SWITCH) != "0":
            host.write(SWITCH, "0")
        host.faults.kill_at(1, when)  # type: ignore[arg-type]
        with pytest.raises(Killed):
            host.write(SWITCH, "1")
        host.restart()
        assert text(open_simulated(WORKSTATION, "node", log), SWITCH) == expected
