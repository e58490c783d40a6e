"""Interrupted plans: finished, undone, or left alone. That every crash is: the contract tests."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any

import pytest

from laneway.core.pci import PciAddress
from laneway.core.plan import CreateMdev, Plan, ResetFunction
from laneway.core.refusals import DeviceDisappeared, ResetFailed
from laneway.host.hardware import Hardware
from laneway.host.plans.audit import Entry
from laneway.host.plans.execute import StepError, execute
from laneway.host.plans.files import StateError
from laneway.host.plans.recover import recover
from laneway.host.plans.state import BusyError
from laneway.host.scan import scan
from laneway.sim.faults import Killed, When
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, audited, hardware_of

UUIDS = tuple(f"5ea6f8a6-3b1c-5a39-9e5e-0d0f0c0b0a0{number}" for number in range(3))


@pytest.fixture
def host() -> SimulatedHost:
    return build(parse_spec("a2"), "node1")


def creations(host: SimulatedHost, count: int = 2) -> tuple[CreateMdev, ...]:
    vgpus = scan(host).vgpus[:count]
    kind = next(kind for kind in vgpus[0].creatable if kind.name == "NVIDIA A2-4Q")
    return tuple(
        CreateMdev(vgpu.address, kind.id, kind.name, uuid)
        for vgpu, uuid in zip(vgpus, UUIDS, strict=False)
    )


def carried(host: SimulatedHost) -> dict[PciAddress, str]:
    return {v.address: v.configured.uuid for v in scan(host).vgpus if v.configured}


async def interrupted(
    host: SimulatedHost, folder: Path, plan: Plan, kill: int, when: When = "before"
) -> None:
    """A process that was killed at its n-th write."""
    hardware = hardware_of(host, folder)
    host.faults.kill_at(kill, when)
    with pytest.raises(Killed):
        await execute(hardware, plan, actor="killed", reason="because", limits=BRIEF)
    host.restart()


async def recovered(hardware: Hardware, **more: Any) -> Any:
    return await recover(hardware, actor="successor", limits=BRIEF, **more)


async def test_there_is_nothing_to_recover_where_nothing_was(
    host: SimulatedHost, tmp_path: Path
) -> None:
    assert await recovered(hardware_of(host, tmp_path / "new")) == ()
    assert not (tmp_path / "new").exists()


async def test_a_plan_is_finished_and_reported(host: SimulatedHost, tmp_path: Path) -> None:
    plan = Plan(creations(host))
    await interrupted(host, tmp_path, plan, 2)
    lines: list[Entry] = []
    hardware = hardware_of(host, tmp_path)._replace(recorded=lines.append)
    reported: list[tuple[int, str]] = []

    [recovery] = await recovered(
        hardware, progress=lambda step: reported.append((step.number, step.phase))
    )

    assert recovery == (plan, "killed", "because", "finished", None)
    assert reported == [(2, "doing"), (2, "done")]
    assert len(carried(host)) == 2
    assert [entry.outcome for entry in audited(hardware)] == ["planned", "done", "done", "finished"]
    assert {entry.actor for entry in audited(hardware)} == {"killed"}
    assert lines == audited(hardware)[2:]  # what this process adds goes to the second place too


async def test_the_next_plan_waits_for_the_interrupted_one(
    host: SimulatedHost, tmp_path: Path
) -> None:
    first, second, third = creations(host, 3)
    await interrupted(host, tmp_path, Plan((first, second)), 2)
    hardware = hardware_of(host, tmp_path)

    await execute(hardware, Plan((third,)), actor="next", reason="because", limits=BRIEF)

    assert len(carried(host)) == 3
    assert [(e.actor, e.outcome) for e in audited(hardware)][-5:] == [
        ("killed", "done"),
        ("killed", "finished"),
        ("next", "planned"),
        ("next", "done"),
        ("next", "finished"),
    ]


async def test_plans_that_ran_side_by_side_are_all_recovered(
    host: SimulatedHost, tmp_path: Path
) -> None:
    hardware = hardware_of(host, tmp_path)
    host.faults.kill_at(2, "after")
    ended = await asyncio.gather(
        *(
            execute(hardware, Plan((step,)), actor=str(step.function), reason="", limits=BRIEF)
            for step in creations(host, 3)
        ),
        return_exceptions=True,
    )
    host.restart()

    recoveries = await recovered(hardware_of(host, tmp_path))

    assert {type(one) for one in ended} <= {Killed, type(None)}
    assert Killed in {type(one) for one in ended}
    assert {recovery.outcome for recovery in recoveries} == {"finished"}
    assert len(recoveries) == len(ended) - ended.count(None)
    assert len(carried(host)) == 3


async def test_what_was_begun_before_a_reboot_is_closed(
    host: SimulatedHost, tmp_path: Path
) -> None:
    await interrupted(host, tmp_path, Plan(creations(host)), 2)
    before = carried(host)
    hardware = hardware_of(host, tmp_path, boot="another")

    [recovery] = await recovered(hardware)

    assert (recovery.outcome, recovery.refusal) == ("left", None)
    assert carried(host) == before
    assert await recovered(hardware) == ()
    assert "booted" in audited(hardware)[-1].error


async def test_a_step_that_has_become_impossible_undoes_the_plan(
    host: SimulatedHost, tmp_path: Path
) -> None:
    plan = Plan(creations(host))
    await interrupted(host, tmp_path, plan, 2)
    host.faults.refuse("/create", errno.EIO)

    [recovery] = await recovered(hardware_of(host, tmp_path))

    assert recovery.outcome == "undone"
    assert "EIO" in recovery.refusal.words
    assert carried(host) == {}


async def test_steps_that_were_not_begun_are_done_too(host: SimulatedHost, tmp_path: Path) -> None:
    await interrupted(host, tmp_path, Plan(creations(host, 3)), 1)

    [recovery] = await recovered(hardware_of(host, tmp_path))

    assert recovery.outcome == "finished"
    assert len(carried(host)) == 3


async def test_what_was_done_without_being_noted_is_undone_with_the_rest(
    host: SimulatedHost, tmp_path: Path
) -> None:
    await interrupted(host, tmp_path, Plan(creations(host)), 1, "after")
    assert len(carried(host)) == 1
    host.faults.refuse("/create", errno.EIO)

    [recovery] = await recovered(hardware_of(host, tmp_path))

    assert recovery.outcome == "undone"
    assert carried(host) == {}


async def test_an_undo_that_was_interrupted_goes_on(host: SimulatedHost, tmp_path: Path) -> None:
    host.faults.fail_write(2, errno.EIO)
    await interrupted(host, tmp_path, Plan(creations(host)), 3)
    assert len(carried(host)) == 1

    [recovery] = await recovered(hardware_of(host, tmp_path))

    assert recovery.outcome == "undone"
    assert "EIO" in recovery.refusal.words
    assert carried(host) == {}


async def test_what_another_changed_is_left_as_it_is(host: SimulatedHost, tmp_path: Path) -> None:
    first, second = creations(host)
    await interrupted(host, tmp_path, Plan((first, second)), 2)
    host.unplug(f"/sys/bus/pci/devices/{second.function}")
    hardware = hardware_of(host, tmp_path)

    [recovery] = await recovered(hardware)

    assert recovery.outcome == "left"
    assert isinstance(recovery.refusal, DeviceDisappeared)
    assert carried(host) == {first.function: first.uuid}
    assert await recovered(hardware) == ()


async def test_a_reset_that_fails_in_recovery_quarantines_too(
    host: SimulatedHost, tmp_path: Path
) -> None:
    vf = scan(host).vgpus[0].address
    host.write("/sys/bus/pci/drivers/nvidia/unbind", str(vf))
    await interrupted(host, tmp_path, Plan((ResetFunction(vf),)), 1)
    host.faults.refuse("/reset", errno.ENOTTY)
    hardware = hardware_of(host, tmp_path)

    [recovery] = await recovered(hardware)

    assert isinstance(recovery.refusal, ResetFailed)
    assert list(hardware.state.quarantined) == [vf]


async def test_two_processes_do_not_recover_at_once(host: SimulatedHost, tmp_path: Path) -> None:
    await interrupted(host, tmp_path, Plan(creations(host)), 2)
    other = hardware_of(host, tmp_path)

    with other.state.lock("the other"), pytest.raises(BusyError):
        await recovered(hardware_of(host, tmp_path))
    await recovered(other)

    assert len(carried(host)) == 2


async def test_a_damaged_journal_stops_every_plan_and_says_why(
    host: SimulatedHost, tmp_path: Path
) -> None:
    (tmp_path / "plan-1.jsonl").write_text("{}\n")
    hardware = hardware_of(host, tmp_path)
    count = host.faults.count

    with pytest.raises(StateError, match=r"plan-1\.jsonl, line 1, is damaged"):
        await recovered(hardware)
    with pytest.raises(
        StepError, match=r"audit\.jsonl in the same folder names .* remove that file"
    ):
        await execute(hardware, Plan(creations(host)), actor="next", reason="", limits=BRIEF)

    assert host.faults.count == count


async def test_a_journal_whose_plan_never_began_is_dropped(
    host: SimulatedHost, tmp_path: Path
) -> None:
    (tmp_path / "plan-1.jsonl").write_text('{"is":"plan","boot":')
    assert await recovered(hardware_of(host, tmp_path)) == ()
    assert not (tmp_path / "plan-1.jsonl").exists()
