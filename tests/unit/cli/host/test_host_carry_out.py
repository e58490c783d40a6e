"""What the terminal shows while a change is carried out."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import click
import pytest

from laneway.cli.errors import Failure
from laneway.cli.host.carry_out import Desired, carry_out, until_interrupted
from laneway.core.layout.plan import DesiredGpu, plan_layout
from laneway.core.passthrough import binding
from laneway.core.pci import PciAddress
from laneway.host.hardware import Hardware
from laneway.sim.changes import Change
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import build, parse_spec
from support.plans import BRIEF, hardware_of

NVME = PciAddress.parse("0000:0a:00.0")
BIND = Desired("bind", lambda seen: binding.bind(NVME, seen), (NVME,))


@pytest.fixture
def hardware(tmp_path: Path) -> Hardware:
    return hardware_of(build(parse_spec("workstation"), "node"), tmp_path)


def simulated(hardware: Hardware) -> SimulatedHost:
    assert isinstance(hardware.host, SimulatedHost)
    return hardware.host


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_an_interrupt_says_what_becomes_of_the_rest(
    hardware: Hardware, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    def interrupt(change: Change) -> None:
        if change.path.endswith("/unbind"):
            os.kill(os.getpid(), number)

    simulated(hardware).record_changes(interrupt)

    with pytest.raises(click.Abort):
        await until_interrupted(carry_out(hardware, BIND), hardware)

    assert "interrupted. The next command finishes or undoes" in capsys.readouterr().err
    simulated(hardware).record_changes(lambda change: None)
    await carry_out(hardware, BIND)
    said = capsys.readouterr().out
    assert "An interrupted plan (bind) was finished." in said
    assert hardware.state.interrupted() == []


@pytest.mark.parametrize("written", ["/unbind", "/driver_override"])
async def test_a_device_that_is_pulled_out_meanwhile_is_said_to_be_gone(
    hardware: Hardware, written: str
) -> None:
    host = simulated(hardware)

    def pull(change: Change) -> None:
        if change.path.endswith(written):
            host.unplug(f"/sys/bus/pci/devices/{NVME}")

    host.record_changes(pull)
    with pytest.raises(Failure) as told:
        await carry_out(hardware, BIND, BRIEF)
    assert f"{NVME} disappeared" in told.value.message
    assert "could not be undone" not in told.value.message
    assert hardware.state.interrupted() == []


async def test_a_part_of_the_virtual_functions_is_reported_each_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hardware = hardware_of(build(parse_spec("a2"), "node"), tmp_path)
    gpu = PciAddress.parse("0000:08:00.0")
    host = simulated(hardware)
    for number in range(7, 16):
        link = f"{host.resolve(f'/sys/bus/pci/devices/{gpu}')}/virtfn{number}"
        host.unplug(link)
        host.tree.discard(link)
    desired = Desired(
        "gpu", lambda seen: plan_layout(DesiredGpu(gpu, (("NVIDIA A2-4Q", 1),)), seen), (gpu,)
    )
    await carry_out(hardware, desired)
    assert "7 of its 16 virtual functions" in capsys.readouterr().err
    await carry_out(hardware, desired)
    assert "7 of its 16 virtual functions" in capsys.readouterr().err
