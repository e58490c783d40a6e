"""USB devices given to QEMU and released, on whatever the machine has plugged in."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from laneway.core.claims import usb_access
from laneway.core.claims.usb_access import QEMU, claim
from laneway.core.decision import Decision
from laneway.core.inventory import UsbDevice
from laneway.core.passthrough.usability import judge_usb, usable
from laneway.core.plan import Plan, Satisfied
from laneway.core.refusals import DeviceHeld, DeviceNotFound
from laneway.core.release.device import release
from laneway.core.situation import Situation
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.scan import scan
from laneway.host.situation import observe
from laneway.sim.host import SimulatedHost
from laneway.sim.spec import Spec, build
from support.machines import Machine, RigMachine, SimulatedMachine, hardware

RIG = os.environ.get("LANEWAY_RIG", "")


@dataclass(frozen=True)
class Plugged:
    """A USB device that nothing on the node needs."""

    machine: Machine
    hardware: Hardware
    device: UsbDevice

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [], [self.device.port])

    async def carry_out(self, decision: Decision) -> None:
        assert isinstance(decision, Plan), decision
        # A device that is gone has no time to come back here.
        limits = Limits(settle_seconds=0.1)
        await execute(self.hardware, decision, actor="test", reason="contract", limits=limits)

    def owner(self) -> tuple[int, int]:
        return self.machine.host.owner(self.device.device_path)


@pytest.fixture
def plugged(tmp_path: Path) -> Iterator[Plugged]:
    machine: Machine = RigMachine() if RIG else SimulatedMachine(build(Spec("plain"), "node"))
    inventory = scan(machine.host)
    free = [device for device in inventory.usb if usable(judge_usb(device, inventory))]
    if RIG and not free:
        pytest.skip("nothing is plugged into this guest")
    found = Plugged(machine, hardware(machine, tmp_path), free[0])
    before = found.owner()
    yield found
    machine.close()
    if RIG:
        machine.host.set_owner(found.device.device_path, *before)


async def test_qemu_gets_the_device_and_its_owner_gets_it_back(plugged: Plugged) -> None:
    before = plugged.owner()
    await plugged.carry_out(claim(plugged.device, await plugged.look()))
    assert plugged.owner() == QEMU
    assert claim(plugged.device, await plugged.look()) == Satisfied()
    # What it belonged to is remembered by the node, not by this process.
    await plugged.carry_out(release(plugged.device.port, await plugged.look()))
    assert plugged.owner() == before
    assert usb_access.release(plugged.device.port, await plugged.look()) == Satisfied()
    assert plugged.hardware.state.usb_originals == {}


async def test_a_device_in_use_is_neither_taken_nor_released(plugged: Plugged) -> None:
    holder = plugged.machine.hold(plugged.device.device_path)
    [refusal] = refusals(claim(plugged.device, await plugged.look()))
    assert isinstance(refusal, DeviceHeld)
    assert str(holder.pid) in refusal.words
    holder.release()
    await plugged.carry_out(claim(plugged.device, await plugged.look()))
    plugged.machine.hold(plugged.device.device_path)
    [refusal] = refusals(usb_access.release(plugged.device.port, await plugged.look()))
    assert isinstance(refusal, DeviceHeld)
    assert plugged.owner() == QEMU


@pytest.mark.skipif(bool(RIG), reason="a guest's devices stay plugged in")
async def test_a_device_that_is_unplugged_meanwhile_is_no_other_devices_owner(
    plugged: Plugged,
) -> None:
    host = plugged.machine.host
    assert isinstance(host, SimulatedHost)
    plan = claim(plugged.device, await plugged.look())
    host.unplug(f"/sys/bus/usb/devices/{plugged.device.port}")
    with pytest.raises(StepError):
        await plugged.carry_out(plan)
    assert refusals(claim(plugged.device, await plugged.look())) == (
        DeviceNotFound(plugged.device.port),
    )


def refusals(decision: Decision) -> tuple[object, ...]:
    assert isinstance(decision, tuple), decision
    return decision
