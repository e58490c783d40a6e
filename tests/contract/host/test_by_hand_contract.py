"""A device is changed by hand between the plan for it and the plan's first write.

What contradicts the plan stays as that person left it, nothing of the plan is half done, and the
error says what is different.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from laneway.core.decision import Decision
from laneway.core.passthrough import binding
from laneway.core.plan import Plan
from laneway.core.situation import Situation
from laneway.core.sriov.vfs import set_vfs
from laneway.host.hardware import Hardware
from laneway.host.plans.execute import Limits, StepError, execute
from laneway.host.situation import observe
from support.machines import hardware

BRIEF = Limits(settle_seconds=0.1)


class Planned:
    """An NVMe controller for which a plan is made now and executed later."""

    def __init__(self, device: Any, folder: Path) -> None:
        self.device = device
        self.hardware: Hardware = hardware(device.machine, folder)

    async def look(self) -> Situation:
        return await observe(self.hardware, "node", [self.device.address])

    async def fails(self, decision: Decision) -> str:
        """The words with which the plan fails, all of it undone."""
        assert isinstance(decision, Plan), decision
        with pytest.raises(StepError) as failure:
            await execute(self.hardware, decision, actor="test", reason="contract", limits=BRIEF)
        assert failure.value.left_over == ()
        assert self.hardware.state.interrupted() == []
        return failure.value.refusal.words

    def override(self) -> str:
        host, path = self.device.host, self.device.path("driver_override")
        return str(host.read(path).decode().strip())


@pytest.fixture
def planned(nvme: Any, tmp_path: Path) -> Planned:
    return Planned(nvme, tmp_path)


async def test_a_device_that_got_another_driver_keeps_it(planned: Planned) -> None:
    device = planned.device
    plan = binding.bind(device.address, await planned.look())
    device.bind("vfio-pci")
    holder = device.machine.hold(device.group_node(), str(device.address))

    words = await planned.fails(plan)

    assert "the device has changed since the plan was made: vfio-pci" in words
    assert (device.driver(), planned.override()) == ("vfio-pci", "vfio-pci")
    holder.release()


async def test_vfs_made_by_hand_are_not_taken_for_those_of_the_plan(planned: Planned) -> None:
    device = planned.device
    plan = set_vfs(device.address, 2, await planned.look())
    device.switch(3)
    vfs = device.virtfns()

    words = await planned.fails(plan)

    assert "3" in words
    assert device.virtfns() == vfs


async def test_vfs_that_are_gone_already_are_no_obstacle(planned: Planned) -> None:
    device = planned.device
    device.host.write(device.path("sriov_drivers_autoprobe"), "0")
    device.switch(3)
    plan = set_vfs(device.address, 2, await planned.look())
    device.switch(0)

    # The plan's own first step is done already, so it goes on.
    assert isinstance(plan, Plan)
    await execute(planned.hardware, plan, actor="test", reason="contract")

    assert len(device.virtfns()) == 2


async def test_a_removed_device_is_reported_as_gone(planned: Planned) -> None:
    device = planned.device
    plan = binding.bind(device.address, await planned.look())
    device.host.write(device.path("remove"), "1")
    try:
        words = await planned.fails(plan)
    finally:
        device.host.write("/sys/bus/pci/rescan", "1")

    assert f"{device.address} disappeared" in words
    assert planned.hardware.state.originals == {}
