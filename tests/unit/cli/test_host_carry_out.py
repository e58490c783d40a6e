"""What `laneway host` prints when something goes wrong half way."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from laneway.cli.errors import Failure
from laneway.cli.host.carry_out import Wish, carry_out, show
from laneway.core.layout import GpuWish, plan_layout
from laneway.core.pci import PciAddress
from laneway.core.plan import Plan, Satisfied, undo
from laneway.host.hardware import Hardware
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.faults import Killed
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import hardware_of

GPU = PciAddress.parse("0000:08:00.0")
VF = PciAddress.parse("0000:08:00.4")


def wish(count: int = 2) -> Wish:
    wanted = GpuWish(GPU, (("NVIDIA A2-4Q", count),))
    return Wish("gpu", lambda seen: plan_layout(wanted, seen), (GPU,))


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("a2"), "node1"), tmp_path)


def simulated(hardware: Hardware) -> SimulatedHost:
    assert isinstance(hardware.host, SimulatedHost)
    return hardware.host


def carried(hardware: Hardware) -> int:
    return sum(vgpu.configured is not None for vgpu in scan(hardware.host).vgpus)


async def test_a_step_that_fails_is_shown_and_so_is_what_is_taken_back(
    hardware: Hardware, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated(hardware).faults.fail_write(2, errno.EIO)

    with pytest.raises(Failure, match="EIO") as failed:
        await carry_out(hardware, wish())

    first, second, back = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] create NVIDIA A2-4Q")
    assert "done (" in first
    assert second.endswith("... failed")
    assert back.startswith("[1/2] take back: create NVIDIA A2-4Q")
    assert str(failed.value).endswith("What was done before it has been undone.")
    assert carried(hardware) == 0


async def test_the_first_step_that_fails_leaves_nothing_to_take_back(hardware: Hardware) -> None:
    simulated(hardware).faults.fail_write(1, errno.EIO)

    with pytest.raises(Failure, match="EIO") as failed:
        await carry_out(hardware, wish())

    assert "undone" not in str(failed.value)


async def test_a_wish_that_is_never_met_ends(hardware: Hardware) -> None:
    counts = iter([1, 2] * 20)
    restless = wish()._replace(
        decide=lambda seen: plan_layout(GpuWish(GPU, (("NVIDIA A2-4Q", next(counts)),)), seen)
    )

    with pytest.raises(Failure, match="do not stay as they are set"):
        await carry_out(hardware, restless)


async def test_interrupted_plans_are_announced_before_a_plan_is_shown(
    hardware: Hardware, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated(hardware).faults.kill_at(2)
    with pytest.raises(Killed):
        await carry_out(hardware, wish())
    simulated(hardware).restart()
    capsys.readouterr()

    await show(hardware, wish())
    assert capsys.readouterr().out.startswith("1 interrupted plan ")

    await carry_out(hardware, wish())
    printed = capsys.readouterr().out
    assert "An interrupted plan (gpu) was finished." in printed
    assert printed.endswith("Nothing to do: everything is as asked for.\n")
    assert carried(hardware) == 2


async def test_a_step_that_is_done_already_or_not_begun_has_its_line(
    hardware: Hardware, capsys: pytest.CaptureFixture[str]
) -> None:
    look = await observe(hardware, "node1", [GPU])
    plan = wish().decide(look)
    assert isinstance(plan, Plan)
    await carry_out(hardware, wish(1))
    capsys.readouterr()

    decisions = iter([plan, Satisfied()])
    await carry_out(hardware, wish()._replace(decide=lambda _: next(decisions)))

    first, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("[1/2] create NVIDIA A2-4Q")
    assert first.endswith("... done already")
    assert "done (" in second

    simulated(hardware).hold(f"/sys/bus/pci/devices/{VF}/{plan.steps[0].uuid}")
    gone = Plan((undo(plan.steps[0]),))
    with pytest.raises(Failure, match="is in use"):
        await carry_out(hardware, wish()._replace(decide=lambda _: gone))
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith("[1/1] remove NVIDIA A2-4Q")
    assert line.endswith("... failed")
