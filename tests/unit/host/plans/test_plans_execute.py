"""Plans carried out on a simulated host: done, undone, refused, abandoned."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import (
    CreateMdev,
    Plan,
    Probe,
    RemoveMdev,
    ResetFunction,
    SetVgpuType,
    SwitchGpuVfs,
    Unbind,
)
from laneway.core.programs import SRIOV_MANAGE, Completed
from laneway.core.refusals import DeviceHeld, HostBusy, ResetFailed, WriteFailed
from laneway.core.words import describe
from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Entry
from laneway.host.plans.execute import Progress, StepError, execute
from laneway.host.plans.operations.operation import Limits
from laneway.host.scan import scan
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, audited, hardware_of

UUID = "5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a09"
WHO = {"actor": "test", "reason": "because", "limits": BRIEF}


@pytest.fixture
def a2(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("a2"), "node1"), tmp_path / "state")


@pytest.fixture
def l40s(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("l40s"), "node1"), tmp_path / "state")


def simulated(hardware: Hardware) -> SimulatedHost:
    assert isinstance(hardware.host, SimulatedHost)
    return hardware.host


def vgpus(hardware: Hardware) -> dict[PciAddress, str]:
    """Function to the profile that it carries."""
    return {
        vgpu.address: vgpu.configured.type_name
        for vgpu in scan(hardware.host).vgpus
        if vgpu.configured is not None
    }


def creation(hardware: Hardware, profile: str) -> CreateMdev:
    vgpu = scan(hardware.host).vgpus[0]
    kind = next(kind for kind in vgpu.creatable if kind.name == profile)
    return CreateMdev(vgpu.address, kind.id, kind.name, UUID)


def removal(create: CreateMdev) -> RemoveMdev:
    return RemoveMdev(create.function, create.type_id, create.profile, create.uuid)


async def test_an_mdev_is_created_and_removed(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")

    await execute(a2, Plan((create,)), **WHO)
    created = vgpus(a2)
    await execute(a2, Plan((removal(create),)), **WHO)

    assert created == {create.function: "NVIDIA A2-4Q"}
    assert vgpus(a2) == {}


async def test_a_vendor_vgpu_is_configured_and_cleared(l40s: Hardware) -> None:
    vgpu = scan(l40s.host).vgpus[0]
    kind = vgpu.creatable[0]

    await execute(l40s, Plan((SetVgpuType(vgpu.address, kind.id, "0", kind.name),)), **WHO)
    configured = vgpus(l40s)
    await execute(l40s, Plan((SetVgpuType(vgpu.address, "0", kind.id, kind.name),)), **WHO)

    assert configured == {vgpu.address: kind.name}
    assert vgpus(l40s) == {}


async def test_a_type_is_written_by_the_id_that_the_driver_has_for_it_now(l40s: Hardware) -> None:
    vgpu = scan(l40s.host).vgpus[0]
    kind, other = vgpu.creatable[:2]

    outdated = SetVgpuType(vgpu.address, other.id, "0", kind.name)
    await execute(l40s, Plan((outdated,)), **WHO)

    assert vgpus(l40s) == {vgpu.address: kind.name}


async def test_an_mdev_is_created_by_the_id_that_the_driver_has_for_it_now(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    other = next(k for k in scan(a2.host).vgpus[0].creatable if k.name != create.profile)

    await execute(a2, Plan((CreateMdev(create.function, other.id, create.profile, UUID),)), **WHO)

    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_a_profile_that_the_driver_offers_no_more_is_not_created(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    writes = simulated(a2).faults.count

    with pytest.raises(StepError, match="no NVIDIA A2-5Q any more"):
        await execute(
            a2, Plan((CreateMdev(create.function, create.type_id, "NVIDIA A2-5Q", UUID),)), **WHO
        )

    assert simulated(a2).faults.count == writes


async def test_a_type_that_the_driver_does_not_offer_is_never_written(l40s: Hardware) -> None:
    vgpu = scan(l40s.host).vgpus[0]
    writes = simulated(l40s).faults.count

    with pytest.raises(StepError, match="no room"):
        await execute(l40s, Plan((SetVgpuType(vgpu.address, "77", "0", "NVIDIA X-1Q"),)), **WHO)

    assert simulated(l40s).faults.count == writes


async def test_what_was_done_is_undone_when_a_later_step_is_refused(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    same_uuid_again = CreateMdev(
        scan(a2.host).vgpus[1].address, create.type_id, create.profile, create.uuid
    )

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((create, same_uuid_again)), **WHO)

    asked = f"/sys/bus/pci/devices/{same_uuid_again.function}/mdev_supported_types/"
    refusal = raised.value.refusal
    assert isinstance(refusal, WriteFailed)
    assert refusal.error.startswith(asked)
    assert refusal.error.endswith("/create: File exists (EEXIST)")
    assert str(same_uuid_again.function) in refusal.step
    assert raised.value.left_over == ()
    assert raised.value.undone
    assert vgpus(a2) == {}


async def test_a_refused_profile_change_brings_the_old_vgpu_back(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)), **WHO)
    impossible = CreateMdev(create.function, "nvidia-9999", "NVIDIA A2-99Q", create.uuid)

    with pytest.raises(StepError):
        await execute(a2, Plan((removal(create), impossible)), **WHO)

    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_what_hardware_has_already_is_neither_done_nor_undone(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)), **WHO)
    writes = simulated(a2).faults.count
    impossible = CreateMdev(scan(a2.host).vgpus[1].address, "nvidia-9999", "NVIDIA A2-99Q", "x")

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((create, impossible)), **WHO)

    assert not raised.value.undone
    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}
    assert simulated(a2).faults.count == writes


async def test_a_device_that_is_not_as_planned_is_left_alone(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)), **WHO)
    elsewhere = scan(a2.host).vgpus[1].address

    with pytest.raises(StepError, match="has changed since the plan was made"):
        await execute(
            a2, Plan((RemoveMdev(elsewhere, create.type_id, create.profile, UUID),)), **WHO
        )

    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_a_write_that_changes_nothing_is_a_failure(l40s: Hardware) -> None:
    class Deaf:
        """A host whose driver takes every write and does nothing."""

        def __getattr__(self, name: str) -> object:
            return getattr(l40s.host, name)

        async def write_within(self, path: str, data: str, seconds: float) -> None:
            """Succeed."""

    vgpu = scan(l40s.host).vgpus[0]
    kind = vgpu.creatable[0]

    with pytest.raises(StepError, match="nothing changed"):
        await execute(
            l40s._replace(host=Deaf()),  # type: ignore[arg-type]
            Plan((SetVgpuType(vgpu.address, kind.id, "0", kind.name),)),
            **WHO,
        )


async def test_an_error_that_hid_a_success_is_none(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    simulated(a2).faults.fail_after(1, errno.EIO)

    await execute(a2, Plan((create,)), **WHO)

    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_a_write_that_blocks_is_abandoned_and_its_device_left_alone(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    second = CreateMdev(
        scan(a2.host).vgpus[1].address, create.type_id, create.profile, UUID.replace("5", "6")
    )
    faults = simulated(a2).faults
    faults.block(f"/sys/bus/pci/devices/{create.function}")
    impatient = {**WHO, "limits": BRIEF._replace(write_seconds=0.05)}
    try:
        with pytest.raises(StepError) as raised:
            await execute(a2, Plan((create,)), **impatient)
        with pytest.raises(StepError, match="earlier write still waits") as again:
            await execute(a2, Plan((create,)), **impatient)
        await execute(a2, Plan((second,)), **WHO)
    finally:
        faults.unblock(f"/sys/bus/pci/devices/{create.function}")

    refusal = raised.value.refusal
    assert isinstance(refusal, WriteFailed)
    assert "ETIMEDOUT" in refusal.error
    assert "held" in refusal.error
    assert not again.value.undone


async def test_what_a_vm_holds_is_not_taken_away(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)), **WHO)
    writes = simulated(a2).faults.count
    held = simulated(a2).hold(f"/sys/bus/mdev/devices/{UUID}")

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((removal(create),)), **WHO)
    untouched = simulated(a2).faults.count == writes
    held.release()
    await execute(a2, Plan((removal(create),)), **WHO)

    assert isinstance(raised.value.refusal, DeviceHeld)
    assert "qemu" in raised.value.refusal.holders[0]
    assert untouched
    assert vgpus(a2) == {}


async def test_what_was_taken_meanwhile_is_left_over(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    impossible = CreateMdev(scan(a2.host).vgpus[1].address, "nvidia-9999", "NVIDIA A2-99Q", "x")

    def start_vm(progress: Progress) -> None:
        if (progress.number, progress.phase) == (1, "done"):
            simulated(a2).hold(f"/sys/bus/mdev/devices/{UUID}")

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((create, impossible)), **WHO, progress=start_vm)

    assert raised.value.left_over == (describe(create),)
    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_a_reset_that_fails_puts_the_device_into_quarantine(a2: Hardware) -> None:
    gpu = next(f for f in scan(a2.host).functions if f.sriov_gpu)
    vf = gpu.vfs[0]
    simulated(a2).faults.refuse("/reset", errno.ENOTTY)
    plan = Plan((Unbind(vf, "nvidia"), ResetFunction(vf), Probe(vf, "nvidia")))

    with pytest.raises(StepError) as raised:
        await execute(a2, plan, **WHO)

    assert isinstance(raised.value.refusal, ResetFailed)
    assert not raised.value.undone
    assert list(a2.state.quarantined) == [vf]
    assert "ENOTTY" in a2.state.quarantined[vf]
    assert next(f for f in scan(a2.host).functions if f.address == vf).driver == ""


@pytest.mark.parametrize(("failures", "succeeds"), [(4, True), (5, False)])
async def test_only_the_unbind_lock_is_worth_another_try(
    a2: Hardware, failures: int, *, succeeds: bool
) -> None:
    gpu = next(f for f in scan(a2.host).functions if f.sriov_gpu)
    off = SwitchGpuVfs(gpu.address, enabled=False, count=len(gpu.vfs))
    simulated(a2).faults.fail_command(
        SRIOV_MANAGE, 1, "Cannot obtain unbindLock for GPU", times=failures
    )

    if succeeds:
        await execute(a2, Plan((off,)), **WHO)
    else:
        with pytest.raises(StepError, match="unbindLock"):
            await execute(a2, Plan((off,)), **WHO)

    left = next(f for f in scan(a2.host).functions if f.address == gpu.address).vfs
    assert bool(left) != succeeds


async def test_any_other_error_of_a_program_is_final_and_reported(a2: Hardware) -> None:
    gpu = next(f for f in scan(a2.host).functions if f.sriov_gpu)
    off = SwitchGpuVfs(gpu.address, enabled=False, count=len(gpu.vfs))
    simulated(a2).faults.fail_command(SRIOV_MANAGE, 3, "GPU is lost\nreally")

    with pytest.raises(StepError, match="sriov-manage ended with status 3: GPU is lost really"):
        await execute(a2, Plan((off,)), **WHO)
    await execute(a2, Plan((off,)), **WHO)

    assert next(f for f in scan(a2.host).functions if f.address == gpu.address).vfs == ()


async def test_what_a_failed_step_left_half_done_is_undone_too(a2: Hardware) -> None:
    gpu = next(f for f in scan(a2.host).functions if f.sriov_gpu)
    off = SwitchGpuVfs(gpu.address, enabled=False, count=len(gpu.vfs))
    await execute(a2, Plan((off,)), **WHO)
    asked: list[str] = []

    class Broken:
        """Enables three VFs and gives up."""

        async def run(self, argv: Sequence[str], seconds: float) -> Completed:
            asked.append(argv[1])
            if argv[1] != "-e":
                return await simulated(a2).run(argv, seconds)
            a2.host.write(f"/sys/bus/pci/devices/{gpu.address}/sriov_numvfs", "3")
            return Completed(1, "the rest is lost")

    with pytest.raises(StepError, match="the rest is lost") as raised:
        await execute(
            a2._replace(executor=Broken()),  # type: ignore[arg-type]
            Plan((SwitchGpuVfs(gpu.address, enabled=True, count=len(gpu.vfs)),)),
            **WHO,
        )

    assert asked == ["-e", "-d"]
    assert raised.value.left_over == ()
    assert next(f for f in scan(a2.host).functions if f.address == gpu.address).vfs == ()


async def test_progress_is_reported_step_by_step(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    impossible = CreateMdev(scan(a2.host).vgpus[1].address, "nvidia-9999", "NVIDIA A2-99Q", "x")
    reported: list[tuple[int, str]] = []

    with pytest.raises(StepError):
        await execute(
            a2,
            Plan((create, impossible)),
            **WHO,
            progress=lambda progress: reported.append((progress.number, progress.phase)),
        )

    assert reported == [
        (1, "doing"),
        (1, "done"),
        (2, "doing"),
        (2, "failed"),
        (1, "undoing"),
        (1, "undone"),
    ]


async def test_the_audit_record_tells_every_write(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    await execute(a2, Plan((create,)), **WHO)
    await execute(a2, Plan((removal(create),)), **WHO)

    entries: list[Entry] = audited(a2)

    assert [entry.outcome for entry in entries] == ["planned", "done", "finished"] * 2
    done = entries[1]
    assert (done.actor, done.reason, done.step) == ("test", "because", create)
    assert (done.before, done.after, done.device) == ("", create.type_id, str(create.function))
    assert done.words == describe(create)
    assert (entries[4].before, entries[4].after) == (create.type_id, "")
    assert entries[1].plan == entries[0].plan != entries[3].plan


async def test_the_audit_record_tells_what_is_undone(a2: Hardware) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    simulated(a2).faults.fail_write(2, errno.EIO)
    gone = removal(create)

    with pytest.raises(StepError):
        await execute(a2, Plan((create, gone)), **WHO)

    entries = audited(a2)
    assert [entry.outcome for entry in entries] == ["planned", "done", "failed", "undone", "closed"]
    assert entries[3].step == create
    assert (entries[3].before, entries[3].after) == (create.type_id, "")
    assert "EIO" in entries[2].error


async def test_nothing_is_written_where_nothing_can_be_remembered(
    a2: Hardware, tmp_path: Path
) -> None:
    (tmp_path / "state").write_text("in the way")
    writes = simulated(a2).faults.count

    with pytest.raises(StepError) as raised:
        await execute(a2, Plan((creation(a2, "NVIDIA A2-4Q"),)), **WHO)

    assert str(tmp_path / "state") in str(raised.value)
    assert not raised.value.undone
    assert simulated(a2).faults.count == writes


async def test_what_cannot_be_audited_is_undone(a2: Hardware) -> None:
    first = creation(a2, "NVIDIA A2-4Q")
    audit = Path(a2.state.audit)

    def lose_audit(progress: Progress) -> None:
        if progress.phase == "doing":
            audit.unlink()
            audit.mkdir()

    lines: list[Entry] = []
    hardware = a2._replace(recorded=lines.append)
    with pytest.raises(StepError, match=r"audit\.jsonl: Is a directory"):
        await execute(hardware, Plan((first,)), **WHO, progress=lose_audit)
    # The second place has what the file has not.
    assert [one.outcome for one in lines][:2] == ["planned", "done"]

    assert vgpus(a2) == {}
    os.rmdir(audit)
    await execute(a2, Plan((first,)), **WHO)
    assert vgpus(a2) == {first.function: first.profile}


async def test_two_processes_do_not_change_one_host(a2: Hardware, tmp_path: Path) -> None:
    create = creation(a2, "NVIDIA A2-4Q")
    other = hardware_of(a2.host, tmp_path / "state")

    with other.state.lock("laneway host"), pytest.raises(StepError) as raised:
        await execute(a2, Plan((create,)), **WHO)
    await execute(a2, Plan((create,)), **WHO)

    assert isinstance(raised.value.refusal, HostBusy)
    assert "laneway host" in raised.value.refusal.holder
    assert vgpus(a2) == {create.function: "NVIDIA A2-4Q"}


async def test_effects_that_come_later_are_waited_for(a2: Hardware) -> None:
    gpu = next(f for f in scan(a2.host).functions if f.sriov_gpu)
    patient = {**WHO, "limits": Limits(poll_seconds=0.001)}
    await execute(a2, Plan((SwitchGpuVfs(gpu.address, False, len(gpu.vfs)),)), **patient)
    simulated(a2).faults.asynchronous_probing = True

    await execute(a2, Plan((SwitchGpuVfs(gpu.address, True, len(gpu.vfs)),)), **patient)

    functions = {f.address: f.driver for f in scan(a2.host).functions}
    assert {functions[vf] for vf in gpu.vfs} == {"nvidia"}
