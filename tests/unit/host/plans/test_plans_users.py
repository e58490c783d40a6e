"""Users that come while a plan is under way: what they have is neither changed nor waited for."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from laneway.core.passthrough.binding import bind, release
from laneway.core.pci import PciAddress
from laneway.core.plan import LoadModule, OverrideDriver, Plan, Probe, ResetFunction, Unbind
from laneway.host.capture import capture
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Progress, StepError, execute
from laneway.host.plans.operations.operation import Limits
from laneway.host.plans.recover import recover
from laneway.host.situation import observe
from laneway.sim.changes import Change
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, audited, hardware_of

NVME = PciAddress.parse("0000:0a:00.0")
HOME = f"/sys/bus/pci/devices/{NVME}"
UNBIND = "/sys/bus/pci/drivers/vfio-pci/unbind"
TAKEN = (Unbind(NVME, "vfio-pci"), OverrideDriver(NVME, "", "vfio-pci"), Probe(NVME, ""))
GIVEN = (Unbind(NVME, "nvme"), OverrideDriver(NVME, "vfio-pci", ""), Probe(NVME, "vfio-pci"))
WHO = {"actor": "test", "reason": "because"}


class Watched(SimulatedHost):
    """A host that says what was read of it."""

    reads: list[str]

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        return super().read(path)


@pytest.fixture
async def hardware(tmp_path: Path) -> Hardware:
    """A disk on vfio-pci."""
    host = build(parse_spec("workstation"), "node")
    host.__class__ = Watched
    host.reads = []
    hardware = hardware_of(host, tmp_path)
    plan = bind(NVME, await observe(hardware, "node", [NVME]))
    assert isinstance(plan, Plan)
    await execute(hardware, plan, **WHO, limits=BRIEF)
    host.reads.clear()
    return hardware


def watched(hardware: Hardware) -> Watched:
    assert isinstance(hardware.host, Watched)
    return hardware.host


def locked_attributes(host: Watched) -> list[str]:
    """Reads that wait while the kernel takes the function away."""
    names = ("driver_override", "uevent", "sriov_numvfs")
    return [path for path in host.reads if path.endswith(tuple(f"/{NVME}/{n}" for n in names))]


async def taken_by_a_vm_meanwhile(hardware: Hardware, plan: Plan) -> StepError:
    """A VM opens the function when the plan has looked for users, and has not yet written."""
    host = watched(hardware)
    host.faults.block(UNBIND)
    limits = Limits(write_seconds=2.0, settle_seconds=0.0)
    run = asyncio.ensure_future(execute(hardware, plan, **WHO, limits=limits))
    while UNBIND not in host.waiting:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(0)
    host.reads.clear()
    host.hold(f"/sys/bus/pci/devices/{NVME}")
    host.faults.unblock(UNBIND)
    with pytest.raises(StepError) as failure:
        await run
    return failure.value


async def test_an_abandoned_unbind_is_not_asked_about(hardware: Hardware) -> None:
    error = await taken_by_a_vm_meanwhile(hardware, Plan(TAKEN))

    assert "no answer from the kernel" in str(error)
    assert locked_attributes(watched(hardware)) == []
    assert hardware.state.originals == {NVME: "nvme"}
    assert hardware.state.interrupted() == []


async def test_undoing_stops_at_an_unbind_that_waits(hardware: Hardware) -> None:
    await execute(hardware, Plan(TAKEN), **WHO, limits=BRIEF)
    plan = Plan((*GIVEN, Unbind(NVME, "vfio-pci")))

    error = await taken_by_a_vm_meanwhile(hardware, plan)

    assert locked_attributes(watched(hardware)) == []
    assert len(error.left_over) == 3


async def test_a_successor_does_not_ask_about_what_is_being_taken_away(
    hardware: Hardware, tmp_path: Path
) -> None:
    host = watched(hardware)
    host.faults.kill_at(1, "during")
    with pytest.raises(Killed):
        await execute(hardware, Plan(TAKEN), **WHO, limits=BRIEF)
    host.hold(f"/sys/bus/pci/devices/{NVME}")
    host.restart()
    host.reads.clear()

    [recovery] = await recover(hardware_of(host, tmp_path), actor="next", limits=BRIEF)

    assert recovery.outcome == "left"
    assert locked_attributes(host) == []


async def test_a_dump_is_made_while_a_function_is_being_taken_away(hardware: Hardware) -> None:
    await taken_by_a_vm_meanwhile(hardware, Plan(TAKEN))
    host = watched(hardware)
    host.reads.clear()

    dump = capture(host)

    assert locked_attributes(host) == []
    assert "0000:0a:00.0" in dump


async def test_what_a_vm_has_taken_is_left_alone_by_undoing(hardware: Hardware) -> None:
    await execute(hardware, Plan(TAKEN), **WHO, limits=BRIEF)
    host = watched(hardware)
    written: list[str] = []

    def start(change: Change) -> None:
        written.extend([change.path] if change.path else [])
        if change.path.endswith("vfio-pci/bind"):
            host.hold(f"/sys/bus/pci/devices/{NVME}")
            written.clear()

    host.record_changes(start)

    with pytest.raises(StepError) as failure:
        await execute(hardware, Plan((*GIVEN, LoadModule("nosuch"))), **WHO, limits=BRIEF)

    assert written == []
    assert len(failure.value.left_over) == 3
    assert "qemu" in audited(hardware)[-2].error


async def test_a_device_that_no_driver_takes_back_is_reported(hardware: Hardware) -> None:
    watched(hardware).faults.fail_probe(1, errno.EIO)
    reported: list[Progress] = []
    plan = release(NVME, await observe(hardware, "node", [NVME]))
    assert isinstance(plan, Plan)

    await execute(hardware, plan, **WHO, limits=BRIEF, progress=reported.append)

    note = f"no driver has taken {NVME}, which nvme had before"
    assert [one.note for one in reported if one.note] == [note]
    assert [one.error for one in audited(hardware) if one.error] == [note]


async def test_a_driver_that_takes_its_time_is_waited_for(hardware: Hardware) -> None:
    watched(hardware).faults.asynchronous_probing = True
    reported: list[Progress] = []
    limits = BRIEF._replace(settle_seconds=60.0)

    await execute(
        hardware,
        Plan((TAKEN[0], ResetFunction(NVME), *TAKEN[1:])),
        **WHO,
        limits=limits,
        progress=reported.append,
    )

    assert not any(one.note for one in reported)
    assert watched(hardware).exists(f"{HOME}/driver")


async def test_what_recovery_itself_did_is_undone_where_another_came(
    hardware: Hardware, tmp_path: Path
) -> None:
    await execute(hardware, Plan(TAKEN), **WHO, limits=BRIEF)
    host = watched(hardware)
    host.faults.kill_at(2, "before")
    with pytest.raises(Killed):
        await execute(hardware, Plan(GIVEN), **WHO, limits=BRIEF)
    host.restart()
    host.write("/sys/bus/pci/drivers/nvme/bind", str(NVME))

    [recovery] = await recover(hardware_of(host, tmp_path), actor="next", limits=BRIEF)

    assert recovery.outcome == "left"
    assert host.read(f"{HOME}/driver_override") == b"(null)\n"
    assert hardware.state.originals == {}


@pytest.mark.parametrize("size", range(0, 2400, 150))
async def test_a_disk_that_is_full_leaves_all_as_it_was(
    hardware: Hardware, tmp_path: Path, size: int
) -> None:
    await execute(hardware, Plan(TAKEN), **WHO, limits=BRIEF)
    host = watched(hardware)
    folder = tmp_path / "full"
    free = hardware_of(host, folder)
    with largest_file(size), pytest.raises(StepError):
        await execute(free, Plan((*GIVEN, LoadModule("nosuch"))), **WHO, limits=BRIEF)

    recovered = await recover(hardware_of(host, folder), actor="next", limits=BRIEF)

    assert {recovery.outcome for recovery in recovered} <= {"undone"}
    assert host.readlink(f"{HOME}/driver").endswith("/nvme")
    assert host.read(f"{HOME}/driver_override") == b"(null)\n"
    assert free.state.originals == {}
    assert free.state.interrupted() == []


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a full disk, no file of this process grows beyond this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
